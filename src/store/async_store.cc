#include "store/async_store.h"

#include <utility>

#include "async/blocking.h"

namespace caisson::store {

namespace {

Store& get(const std::unique_ptr<Store>& store) {
  if (!store) throw Error(ErrorCode::internal_error, "the store is used before it is open");
  return *store;
}

}  // namespace

AsyncStore::AsyncStore() : thread_(1) {}

AsyncStore::~AsyncStore() {
  thread_.join();
}

Task<Opened> AsyncStore::open(std::filesystem::path file) {
  auto work = [this, path = std::move(file)] {
    store_.reset();  // the file is closed before it is opened again
    store_ = std::make_unique<Store>(path);
    return store_->opened();
  };
  return run_blocking(thread_, std::move(work));
}

Task<void> AsyncStore::put_session(SessionRecord record) {
  auto work = [this, moved = std::move(record)] { get(store_).put_session(moved); };
  return run_blocking(thread_, std::move(work));
}

Task<bool> AsyncStore::touch_session(std::string session_id, model::Timestamp last_used_at) {
  auto work = [this, id = std::move(session_id), last_used_at] {
    return get(store_).touch_session(id, last_used_at);
  };
  return run_blocking(thread_, std::move(work));
}

Task<bool> AsyncStore::remove_session(std::string session_id) {
  auto work = [this, id = std::move(session_id)] { return get(store_).remove_session(id); };
  return run_blocking(thread_, std::move(work));
}

Task<std::vector<SessionRecord>> AsyncStore::sessions() {
  auto work = [this] { return get(store_).sessions(); };
  return run_blocking(thread_, std::move(work));
}

Task<void> AsyncStore::put_executions(std::vector<ExecutionRecord> records,
                                      std::vector<ExecutionId> dropped) {
  auto work = [this, list = std::move(records), gone = std::move(dropped)] {
    get(store_).put_executions(list, gone);
  };
  return run_blocking(thread_, std::move(work));
}

Task<void> AsyncStore::remove_executions(std::vector<ExecutionId> ids) {
  auto work = [this, list = std::move(ids)] { get(store_).remove_executions(list); };
  return run_blocking(thread_, std::move(work));
}

Task<void> AsyncStore::remove_executions_of(std::string session_id) {
  auto work = [this, id = std::move(session_id)] { get(store_).remove_executions_of(id); };
  return run_blocking(thread_, std::move(work));
}

Task<std::optional<ExecutionRecord>> AsyncStore::find_execution(ExecutionId id) {
  auto work = [this, moved = std::move(id)] { return get(store_).find_execution(moved); };
  return run_blocking(thread_, std::move(work));
}

Task<std::vector<ExecutionRecord>> AsyncStore::executions() {
  auto work = [this] { return get(store_).executions(); };
  return run_blocking(thread_, std::move(work));
}

Task<std::optional<std::string>> AsyncStore::find_meta(std::string key) {
  auto work = [this, moved = std::move(key)] { return get(store_).find_meta(moved); };
  return run_blocking(thread_, std::move(work));
}

Task<void> AsyncStore::set_meta(std::string key, std::string value) {
  auto work = [this, name = std::move(key), text = std::move(value)] {
    get(store_).set_meta(name, text);
  };
  return run_blocking(thread_, std::move(work));
}

}  // namespace caisson::store
