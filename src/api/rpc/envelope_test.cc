#include "api/rpc/envelope.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "base/str.h"
#include "session/compare.h"

namespace caisson::api::rpc {
namespace {

namespace json = boost::json;

Request request_of(std::string_view text) {
  std::optional<json::object> object = read_object(text);
  EXPECT_TRUE(object) << text;
  return read_request(std::move(*object));
}

std::string refusal_of(std::string_view text) {
  try {
    request_of(text);
    return "";
  } catch (...) {
    return failure_text(std::current_exception());
  }
}

TEST(Envelope, EchoesTheSequenceAsItCame) {
  EXPECT_EQ(sequence_text(R"({"seq_id": 12345, "action": "x"})"), "12345");
  EXPECT_EQ(sequence_text(R"({"seq_id": "9004"})"), "\"9004\"");
  EXPECT_EQ(sequence_text(R"({"seq_id":9005.0})"), "9005.0");
  EXPECT_EQ(sequence_text(R"({"seq_id": 123456789012345678901234567890})"),
            "123456789012345678901234567890");
  EXPECT_EQ(sequence_text(
                R"({"data": {"seq_id": 1}, "x": "\"seq_id\": 2", "seq_id" : [1, {"a": "]"}] })"),
            R"([1, {"a": "]"}])");
  EXPECT_EQ(sequence_text(R"({"seq_id": null, "seq_id": true})"), "true");
  EXPECT_EQ(sequence_text(R"({"action": "x"})"), "-1");
  EXPECT_EQ(sequence_text("{}"), "-1");
}

TEST(Envelope, TakesOnlyObjectsThatNameAnActionAndAreNoAnswers) {
  EXPECT_FALSE(read_object("[1]"));
  EXPECT_FALSE(read_object("not json"));
  EXPECT_FALSE(read_object(R"({"a": 1)"));
  EXPECT_TRUE(is_request(*read_object(R"({"action": "x"})")));
  EXPECT_FALSE(is_request(*read_object(R"({"action": "x", "code": 0})")));
  EXPECT_FALSE(is_request(*read_object(R"({"seq_id": 1})")));
}

TEST(Envelope, CountsTheDepthOfTheDataAlone) {
  const auto nested = [](std::size_t depth) {
    return str(R"({"action": "a", "seq_id": 7, "data": )", std::string(depth, '['), "\"]]\\\"\"",
               std::string(depth, ']'), "}");
  };
  EXPECT_TRUE(read_object(nested(kMaxDepth)));
  EXPECT_FALSE(is_too_deep(nested(kMaxDepth)));
  EXPECT_FALSE(read_object(nested(kMaxDepth + 1)));
  EXPECT_TRUE(is_too_deep(nested(kMaxDepth + 1)));
  EXPECT_FALSE(is_too_deep(str("{\"a\": \"", std::string(kMaxDepth * 2, '['))));
  EXPECT_EQ(sequence_text(nested(kMaxDepth + 1)), "7");
}

TEST(Envelope, ReadsPythonsConstantsAsNull) {
  const auto object = read_object(R"({"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \"NaN"})");
  ASSERT_TRUE(object);
  EXPECT_EQ(json::serialize(*object), R"({"a":null,"b":[null,null],"c":"NaN \"NaN"})");
}

TEST(Envelope, RefusesWhatIsNoRequestWithTheFieldsName) {
  const std::string start = "ValidationError: 1 validation error for ActionRequest\n";
  EXPECT_EQ(refusal_of(R"({"action": "x", "data": {}})"), start + "seq_id\n  Field required");
  EXPECT_EQ(refusal_of(R"({"seq_id": "a", "action": "x", "data": {}})"),
            start + "seq_id\n  Input should be a valid integer");
  EXPECT_EQ(refusal_of(R"({"seq_id": null, "action": "x", "data": {}})"),
            start + "seq_id\n  Input should be a valid integer");
  EXPECT_EQ(refusal_of(R"({"seq_id": 1, "action": 5, "data": {}})"),
            start + "action\n  Input should be a valid string");
  EXPECT_EQ(refusal_of(R"({"seq_id": 1, "action": "x"})"), start + "data\n  Field required");
  EXPECT_EQ(refusal_of(R"({"seq_id": 1, "action": "x", "data": []})"),
            start + "data\n  Input should be a valid dictionary");
  EXPECT_EQ(refusal_of(R"({"seq_id": true, "action": "x", "data": {}})"), "");
  EXPECT_EQ(refusal_of(R"({"seq_id": " 7 ", "action": "x", "data": {}, "more": 1})"), "");
}

TEST(Envelope, ReadsTheContextOfATenant) {
  const auto tenant = [](const std::string& context) {
    return request_of(R"({"seq_id": 1, "action": "x", "data": {}, "context": )" + context + "}")
        .tenant;
  };
  EXPECT_EQ(tenant(R"({"instance_uuid": " i ", "workspace_uuid": "w"})"),
            (session::Tenant{"i", "w", 1}));
  EXPECT_EQ(tenant(R"({"instance_uuid": "i", "workspace_uuid": "w", "placement_generation": "3",
                       "installation_uuid": null})"),
            (session::Tenant{"i", "w", 3}));
  EXPECT_EQ(tenant("null"), std::nullopt);
  EXPECT_EQ(tenant(R"({"instance_uuid": "i", "workspace_uuid": "w", "placement_generation": 2,
                       "installation_uuid": "p", "runtime_revision": 1, "artifact_digest": ")" +
                   std::string(64, 'a') + "\"}"),
            (session::Tenant{"i", "w", 2}));
}

TEST(Envelope, RefusesContextsThatAreNotUnderstoodToTheLetter) {
  const auto refused = [](const std::string& context) {
    return refusal_of(R"({"seq_id": 1, "action": "x", "data": {}, "context": )" + context + "}");
  };
  for (const char* context :
       {R"({"instance_uuid": " ", "workspace_uuid": "w"})", R"({"workspace_uuid": "w"})",
        R"({"instance_uuid": "i", "workspace_uuid": "w", "more": 1})", "[]",
        R"({"instance_uuid": "i", "workspace_uuid": "w", "installation_uuid": " "})",
        R"({"instance_uuid": "i", "workspace_uuid": "w", "runtime_revision": 1})"}) {
    EXPECT_TRUE(refused(context).starts_with("ValidationError: ")) << context;
  }
  EXPECT_NE(refused(R"({"instance_uuid": "i", "workspace_uuid": "w", "placement_generation": 0})")
                .find("placement_generation must be greater than or equal to 1"),
            std::string::npos);
}

TEST(Envelope, AnswersAsLangBotsRuntimeWrites) {
  EXPECT_EQ(
      answer_text("1", {}),
      R"({"seq_id": 1, "code": 0, "message": "success", "data": {}, "chunk_status": "continue"})");
  EXPECT_EQ(error_text("\"a\"", "ValueError: Action nope not found"),
            R"({"seq_id": "a", "code": 1, "message": "ValueError: Action nope not found", )"
            R"("data": {}, "chunk_status": "continue"})");
  const json::object large{{"text", std::string(300, 'x')}};
  EXPECT_EQ(answer_text("2", large, 256),
            error_text("2", "ValueError: Runtime message exceeds 256 byte limit"));
}

TEST(Envelope, NamesFailuresAsPythonWould) {
  const auto text = [](const auto& error) { return failure_text(std::make_exception_ptr(error)); };
  EXPECT_EQ(text(Error(ErrorCode::session_not_found, "session x not found")),
            "BoxSessionNotFoundError: session x not found");
  EXPECT_EQ(text(Error(ErrorCode::forbidden, "no")), "PermissionError: no");
  EXPECT_EQ(text(Fault("KeyError", "'name'")), "KeyError: 'name'");
  EXPECT_EQ(text(Error(ErrorCode::not_ready, std::string(5000, 'x'))),
            "BoxReadinessError: " + std::string(4096, 'x') + "... [protocol error truncated]");
  EXPECT_EQ(text(Error(ErrorCode::validation_error, std::string(5000, 'x'))),
            "BoxValidationError: " + std::string(5000, 'x'));
}

TEST(FailureText, TellsConflictsInTheSentencesOfLangBot) {
  const auto told = [](const char* setting, const json::value& existing) {
    return failure_text(std::make_exception_ptr(session::SettingsConflict("s", setting, existing)));
  };
  const std::string begin = "BoxSessionConflictError: Box session s already exists with ";
  EXPECT_EQ(told("network", "off"), begin + "network=off");
  EXPECT_EQ(told("host_path", nullptr), begin + "host_path=None");
  EXPECT_EQ(told("persistent", true), begin + "persistent=True");
  EXPECT_EQ(told("cpus", 1.0), begin + "cpus=1.0");
  EXPECT_EQ(told("memory_mb", 512), begin + "memory_mb=512");
  EXPECT_EQ(told("extra_mounts", json::array()),
            "BoxSessionConflictError: Box mounts differ from this session's immutable mount set; "
            "acquire a Box with a distinct reuse key for different host mounts. The existing "
            "session was preserved.");
}

}  // namespace
}  // namespace caisson::api::rpc
