#pragma once
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/child_process.h"
#include "base/unique_fd.h"
#include "report.h"

namespace caisson::benchmarks {

// Whether ./bench has installed langbot-plugin: CAISSON_BENCH_LANGBOT names a Python that has it.
bool has_langbot();

// An image of Docker that LangBot's runtime can use, if any. When it starts it removes every
// container of another one: with such containers there, it does not get the engine.
std::optional<std::string> docker_image_for_langbot(Report& report);

// One of the scripts beside this file, run by that Python; it speaks in lines of JSON. Its input
// ends with the object, and so does the script.
class LangBotScript {
 public:
  LangBotScript(const std::string& script, const std::vector<std::string>& arguments);
  LangBotScript(const LangBotScript&) = delete;
  LangBotScript& operator=(const LangBotScript&) = delete;
  ~LangBotScript();

  void tell(std::string_view line);
  // The next line. Throws when it tells of an error, when there is none, and after a minute.
  boost::json::object hear();

 private:
  UniqueFd input_;
  UniqueFd output_;
  std::string unread_;
  ChildProcess process_;
};

}  // namespace caisson::benchmarks
