#include "table.h"

#include <boost/json/array.hpp>
#include <cstdio>

#include "base/str.h"

namespace caisson::benchmarks {

namespace {

namespace json = boost::json;

std::string number(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::milliseconds:
      return "ms";
    case Unit::per_second:
      return "/s";
    case Unit::kibibytes:
      return "KiB";
  }
  return "";
}

int decimals_of(Unit unit) {
  return unit == Unit::milliseconds ? 3 : 0;
}

// "1.021 ms (min 0.712, p90 1.404, n 500)"
std::string cell(const Summary& summary, Unit unit) {
  const int decimals = decimals_of(unit);
  return str(number(summary.median, decimals), " ", name_of(unit), " (min ",
             number(summary.min, decimals), ", p90 ", number(summary.p90, decimals), ", n ",
             summary.n, ")");
}

std::string cell(const Goal& goal, Unit unit) {
  const std::string_view sign = goal.bound == Goal::Bound::at_most ? "<= " : ">= ";
  if (goal.of == Goal::Of::ratio) return str("ratio ", sign, number(goal.limit, 2));
  return str(sign, number(goal.limit, 0), " ", name_of(unit));
}

std::string cell(std::optional<bool> met) {
  if (!met) return "not known";
  return *met ? "yes" : "NO";
}

std::string loads(const std::array<double, 3>& load) {
  return str(number(load[0], 2), " ", number(load[1], 2), " ", number(load[2], 2));
}

std::string row(const Figure& figure) {
  const std::optional<double> ratio = figure.ratio();
  return str(
      "| ", figure.name, " | ", cell(figure.ours, figure.unit), " | ",
      figure.peer ? str(figure.peer->name, ": ", cell(figure.peer->summary, figure.unit)) : "",
      " | ", ratio ? number(*ratio, 2) : "", " | ",
      figure.goal ? cell(*figure.goal, figure.unit) : "", " | ",
      figure.goal ? cell(figure.met()) : "", " |\n");
}

std::string phase_table(const std::vector<Phase>& phases) {
  double total = 0;
  for (const Phase& phase : phases) total += phase.summary.median;
  std::string text =
      "| phase | median ms | min | p90 | n | share |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const Phase& phase : phases) {
    const Summary& s = phase.summary;
    text += str("| ", phase.name, " | ", number(s.median, 3), " | ", number(s.min, 3), " | ",
                number(s.p90, 3), " | ", s.n, " | ", number(100 * s.median / total, 0), " % |\n");
  }
  return text + str("| all phases | ", number(total, 3), " | | | | |\n");
}

json::object object(const Summary& summary) {
  return {{"n", summary.n}, {"median", summary.median}, {"min", summary.min}, {"p90", summary.p90}};
}

json::object object(const Figure& figure) {
  json::object result{{"measurement", figure.measurement},
                      {"name", figure.name},
                      {"unit", name_of(figure.unit)},
                      {"ours", object(figure.ours)}};
  if (figure.peer) {
    json::object peer = object(figure.peer->summary);
    peer["name"] = figure.peer->name;
    result["peer"] = std::move(peer);
  }
  if (const auto ratio = figure.ratio()) result["ratio"] = *ratio;
  if (figure.goal) {
    const bool most = figure.goal->bound == Goal::Bound::at_most;
    result["goal"] = json::object{{"of", figure.goal->of == Goal::Of::ratio ? "ratio" : "ours"},
                                  {"bound", most ? "at_most" : "at_least"},
                                  {"limit", figure.goal->limit}};
  }
  if (const auto met = figure.met()) result["met"] = *met;
  return result;
}

}  // namespace

std::string to_markdown(const Report& report) {
  std::string text;
  if (!report.figures.empty()) {
    text =
        "| figure | ours | peer | ratio | goal | met? |\n| --- | --- | --- | --- | --- | --- |\n";
    for (const Figure& figure : report.figures) text += row(figure);
  }
  if (!report.phases.empty()) text += (text.empty() ? "" : "\n") + phase_table(report.phases);
  text += str("\nLinux ", report.kernel, ", ", report.cpus, " CPUs; load average ",
              loads(report.load_before), " before, ", loads(report.load_after), " after.\n");
  for (const std::string& note : report.notes) text += str("- ", note, "\n");
  return text;
}

json::object to_json(const Report& report) {
  const auto load = [](const std::array<double, 3>& values) {
    return json::array{values[0], values[1], values[2]};
  };
  json::array figures;
  for (const Figure& figure : report.figures) figures.emplace_back(object(figure));
  json::array phases;
  for (const Phase& phase : report.phases) {
    json::object entry = object(phase.summary);
    entry["name"] = phase.name;
    phases.emplace_back(std::move(entry));
  }
  json::array notes;
  for (const std::string& note : report.notes) notes.emplace_back(note);
  return {{"kernel", report.kernel},
          {"cpus", report.cpus},
          {"load_before", load(report.load_before)},
          {"load_after", load(report.load_after)},
          {"figures", std::move(figures)},
          {"phases", std::move(phases)},
          {"notes", std::move(notes)}};
}

}  // namespace caisson::benchmarks
