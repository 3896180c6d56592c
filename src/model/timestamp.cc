#include "model/timestamp.h"

#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "model/object_reader.h"

namespace caisson::model {

namespace {
namespace chr = std::chrono;

constexpr double kMillisecondsFrom = 2e10;     // a greater number of seconds is the year 2603
constexpr double kFirstSecond = -62135596800;  // the start of the year 1
constexpr double kLastSecond = 253402300799;   // the end of the year 9999

// Takes pieces off the front of a text; every function gives false or nullopt when it does not fit.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }

  bool skip_one_of(std::string_view characters) {
    if (rest_.empty() || characters.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<int> digits(std::size_t count, int least, int most) {
    if (rest_.size() < count) return std::nullopt;
    int value = 0;
    for (const char c : rest_.substr(0, count)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(count);
    if (value < least || value > most) return std::nullopt;
    return value;
  }

  // Digits after the point as microseconds; what is finer is cut off.
  std::optional<chr::microseconds> fraction() {
    std::int64_t value = 0;
    std::size_t count = 0;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; ++count) {
      if (count < 6) value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    if (count == 0) return std::nullopt;
    for (; count < 6; ++count) value *= 10;
    return chr::microseconds(value);
  }

 private:
  std::string_view rest_;
};

std::optional<chr::sys_days> scan_date(Scanner& scanner) {
  const auto year = scanner.digits(4, 1, 9999);
  if (!year || !scanner.skip_one_of("-")) return std::nullopt;
  const auto month = scanner.digits(2, 1, 12);
  if (!month || !scanner.skip_one_of("-")) return std::nullopt;
  const auto day = scanner.digits(2, 1, 31);
  if (!day) return std::nullopt;
  const chr::year_month_day date(chr::year(*year), chr::month(static_cast<unsigned>(*month)),
                                 chr::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return chr::sys_days(date);
}

std::optional<chr::microseconds> scan_clock(Scanner& scanner) {
  const auto hour = scanner.digits(2, 0, 23);
  if (!hour || !scanner.skip_one_of(":")) return std::nullopt;
  const auto minute = scanner.digits(2, 0, 59);
  if (!minute) return std::nullopt;
  chr::microseconds clock = chr::hours(*hour) + chr::minutes(*minute);
  if (!scanner.skip_one_of(":")) return clock;
  const auto second = scanner.digits(2, 0, 59);
  if (!second) return std::nullopt;
  clock += chr::seconds(*second);
  if (!scanner.skip_one_of(".,")) return clock;
  const auto fraction = scanner.fraction();
  if (!fraction) return std::nullopt;
  return clock + *fraction;
}

// "+02:00", "+0200" or "+02" after its sign.
std::optional<chr::minutes> scan_offset(Scanner& scanner) {
  const auto hours = scanner.digits(2, 0, 23);
  if (!hours) return std::nullopt;
  if (scanner.at_end()) return chr::hours(*hours);
  scanner.skip_one_of(":");
  const auto minutes = scanner.digits(2, 0, 59);
  if (!minutes) return std::nullopt;
  return chr::hours(*hours) + chr::minutes(*minutes);
}

std::optional<ParsedTimestamp> from_number(double number) {
  if (std::abs(number) > kMillisecondsFrom) number /= 1000;
  if (!(number >= kFirstSecond && number <= kLastSecond)) return std::nullopt;
  const double whole = std::floor(number);
  const auto fraction = chr::microseconds(std::llround((number - whole) * 1e6));
  return ParsedTimestamp{Timestamp(chr::seconds(static_cast<std::int64_t>(whole)) + fraction),
                         true};
}

std::optional<ParsedTimestamp> from_iso(std::string_view text) {
  Scanner scanner(text);
  const auto date = scan_date(scanner);
  if (!date) return std::nullopt;
  ParsedTimestamp parsed{*date, false};
  if (scanner.at_end()) return parsed;
  if (!scanner.skip_one_of("Tt _")) return std::nullopt;
  const auto clock = scan_clock(scanner);
  if (!clock) return std::nullopt;
  parsed.time += *clock;
  if (scanner.at_end()) return parsed;
  parsed.has_zone = true;
  if (!scanner.skip_one_of("Zz")) {
    const bool east = scanner.skip_one_of("+");
    if (!east && !scanner.skip_one_of("-")) return std::nullopt;
    const auto offset = scan_offset(scanner);
    if (!offset) return std::nullopt;
    parsed.time -= east ? *offset : -*offset;
  }
  if (!scanner.at_end()) return std::nullopt;
  return parsed;
}
}  // namespace

std::string timestamp_text(Timestamp time, UtcMark mark) {
  const auto day = chr::floor<chr::days>(time);
  const chr::year_month_day date(day);
  const chr::hh_mm_ss<chr::microseconds> clock(time - day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  std::string out = text;
  if (clock.subseconds().count() != 0) {
    std::snprintf(text, sizeof text, ".%06d", static_cast<int>(clock.subseconds().count()));
    out += text;
  }
  return out + (mark == UtcMark::z ? "Z" : "+00:00");
}

std::optional<ParsedTimestamp> parse_timestamp(std::string_view text) {
  text = trim(text);
  if (text.find_first_not_of("+-.0123456789") == std::string_view::npos &&
      text.find('-', 1) == std::string_view::npos) {
    const std::optional<double> number = to_number(boost::json::value(text));
    return number ? from_number(*number) : std::nullopt;
  }
  return from_iso(text);
}

std::optional<ParsedTimestamp> parse_timestamp(const boost::json::value& value) {
  if (const boost::json::string* text = value.if_string()) {
    return parse_timestamp(std::string_view(*text));
  }
  const std::optional<double> number = value.is_number() ? to_number(value) : std::nullopt;
  return number ? from_number(*number) : std::nullopt;
}

}  // namespace caisson::model
