// The same for all tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "precompiled.h"
