# Warning and sanitizer flags that every target of the project shares.
add_library(caisson_flags INTERFACE)
target_include_directories(caisson_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")
target_compile_options(caisson_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers
  $<$<BOOL:${CAISSON_WERROR}>:-Werror>)

add_library(caisson_sanitize INTERFACE)
if(CAISSON_SANITIZE)
  target_compile_options(caisson_sanitize INTERFACE -fsanitize=${CAISSON_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(caisson_sanitize INTERFACE -fsanitize=${CAISSON_SANITIZE})
  if(CAISSON_SANITIZE MATCHES "undefined")
    target_compile_options(caisson_sanitize INTERFACE -fno-sanitize-recover=undefined)
  endif()
  if(CAISSON_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(caisson_sanitize INTERFACE -Wno-tsan)
  endif()
endif()
if(CAISSON_FUZZ)
  target_compile_options(caisson_sanitize INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Outside headers, compiled once. -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without, and shows an include that is missing.
# These two only hold them for REUSE_FROM; a user has to be compiled with the same flags, position independence included.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/precompiled.cc" CONTENT "")
function(caisson_precompile name header)
  add_library(${name} OBJECT "${CMAKE_BINARY_DIR}/precompiled.cc")
  target_link_libraries(${name} PRIVATE caisson_flags caisson_sanitize ${ARGN})
  target_precompile_headers(${name} PRIVATE "${CMAKE_SOURCE_DIR}/cmake/${header}")
endfunction()
caisson_precompile(caisson_precompiled precompiled.h)

# Test code runs once: to optimise it takes longer than it saves. What it tests is optimised as the preset says.
set(caisson_test_options $<$<NOT:$<CONFIG:Debug>>:-O0> $<$<NOT:$<CONFIG:Debug>>:-g1>)
if(CAISSON_TESTS)
  find_package(GTest REQUIRED)
  caisson_precompile(caisson_precompiled_test precompiled_test.h GTest::gmock)
  target_compile_options(caisson_precompiled_test PRIVATE -fPIE ${caisson_test_options})
endif()

# caisson_module(NAME SOURCES a.cc b.cc [DEPS module...] [LINK library...] [TESTS a_test.cc...])
#
# One folder = one library `caisson_NAME` = one namespace. DEPS names other modules, LINK outside libraries. TESTS become one
# program NAME_test that ctest runs. A nested module is named with an underscore: backend_native is src/backend/native.
function(caisson_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LINK;TESTS" ${ARGN})
  set(target caisson_${name})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_precompile_headers(${target} REUSE_FROM caisson_precompiled)
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${target} ${scope} caisson_flags caisson_sanitize)
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${target} ${scope} caisson_${dep})
  endforeach()
  target_link_libraries(${target} ${scope} ${arg_LINK})
  if(arg_TESTS AND CAISSON_TESTS)
    caisson_test(${name}_test SOURCES ${arg_TESTS} DEPS ${name} LABEL unit)
  endif()
endfunction()

# caisson_test(NAME SOURCES a_test.cc [DEPS module...] [LINK library...] [LABEL label])
#
# The target LABEL_tests makes all programs of a label.
function(caisson_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;DEPS;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_precompile_headers(${name} REUSE_FROM caisson_precompiled_test)
  target_compile_options(${name} PRIVATE ${caisson_test_options})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${name} PRIVATE caisson_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE caisson_flags caisson_sanitize ${arg_LINK} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT 600)
  if(NOT TARGET ${arg_LABEL}_tests)
    add_custom_target(${arg_LABEL}_tests)
  endif()
  add_dependencies(${arg_LABEL}_tests ${name})
endfunction()
