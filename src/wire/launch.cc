#include "wire/launch.h"

#include <utility>

#include "base/str.h"
#include "base/text.h"
#include "wire/bytes.h"

namespace caisson::wire {

namespace {

// `fields(archive, message)` names the fields of a message once; an archive writes or reads them.
// clang-format off
template <class A> void fields(A& a, EnterCgroups& s) { a(s.fds); }
template <class A> void fields(A&, NewCgroupNamespace&) {}
template <class A> void fields(A&, BringLoopbackUp&) {}
template <class A> void fields(A&, HandOverNetwork&) {}
template <class A> void fields(A&, HandOverMounts&) {}
template <class A> void fields(A& a, SetHostname& s) { a(s.name); }
template <class A> void fields(A& a, NewRoot& s) { a(s.bytes, s.inodes, s.owner); }
template <class A> void fields(A& a, BindRoot& s) { a(s.source, s.flags, s.idmap); }
template <class A> void fields(A& a, MakeDirectory& s) { a(s.target, s.mode, s.owner); }
template <class A> void fields(A& a, MakeSymlink& s) { a(s.content, s.target); }
template <class A> void fields(A& a, MakeFile& s) { a(s.target, s.mode, s.content); }
template <class A> void fields(A& a, BindHost& s) {
  a(s.source, s.target, s.flags, s.idmap, s.idmap_optional, s.expected_device, s.expected_inode);
}
template <class A> void fields(A& a, BindTemplate& s) { a(s.source, s.target, s.flags); }
template <class A> void fields(A& a, BindInside& s) { a(s.source, s.target, s.flags); }
template <class A> void fields(A& a, MakeTmpfs& s) {
  a(s.target, s.bytes, s.inodes, s.mode, s.owner);
}
template <class A> void fields(A& a, AttachMount& s) { a(s.fd, s.target); }
template <class A> void fields(A& a, MakeScratch& s) { a(s.bytes, s.inodes); }
template <class A> void fields(A& a, BindScratch& s) {
  a(s.name, s.target, s.mode, s.owner, s.flags);
}
template <class A> void fields(A& a, MountOverlay& s) {
  a(s.lower, s.source, s.target, s.owner, s.for_ordinary_user);
}
template <class A> void fields(A& a, MountProc& s) { a(s.target); }
template <class A> void fields(A& a, MountTerminals& s) { a(s.target, s.group); }
template <class A> void fields(A& a, MaskPath& s) { a(s.target); }
template <class A> void fields(A& a, MakeReadOnly& s) { a(s.target); }
template <class A> void fields(A& a, PivotRoot& s) { a(s.keep_host_at); }
template <class A> void fields(A& a, Unmount& s) { a(s.target); }
template <class A> void fields(A& a, EnterUserNamespace& s) { a(s.fd, s.uid, s.gid); }
template <class A> void fields(A& a, SetResourceLimit& s) { a(s.resource, s.value); }
template <class A> void fields(A&, DropPrivileges&) {}
template <class A> void fields(A& a, InstallFilter& s) { a(s.program); }
template <class A> void fields(A& a, OwnInodes& s) { a(s.paths, s.files, s.optional); }
template <class A> void fields(A& a, GuestSettings& s) {
  a(s.cgroups, s.payload_uid, s.payload_gid, s.payload_outside_uid, s.proofs, s.host_namespaces, s.cgroup_controllers,
    s.masked_paths, s.read_only_paths, s.scratch_path, s.scratch_bytes, s.read_only_root, s.network_off,
    s.own_inode_paths);
}
template <class A> void fields(A& a, IdRange& s) { a(s.inside, s.outside, s.count); }
template <class A> void fields(A& a, BuildTemplate& s) { a(s.plan, s.new_user_namespace); }
template <class A> void fields(A& a, CreateUserNamespace& s) { a(s.uids, s.gids, s.account); }
template <class A> void fields(A& a, LaunchBox& s) { a(s.new_network, s.plan); }
template <class A> void fields(A& a, FinishBox& s) { a(s.plan, s.guest); }
template <class A> void fields(A& a, AdoptCgroups& s) { a(s.names); }
template <class A> void fields(A& a, IndirectLaunch& s) { a(s.size); }
template <class A> void fields(A& a, ShowMount& s) {
  a(s.target, s.holder, s.owner, s.replace, s.source, s.read_only, s.expected_device, s.expected_inode);
}
template <class A> void fields(A& a, HideMount& s) { a(s.target, s.holder); }
template <class A> void fields(A&, Done&) {}
template <class A> void fields(A& a, Launched& s) { a(s.pid); }
template <class A> void fields(A& a, LaunchFailed& s) { a(s.step, s.error_number); }
// clang-format on

// Variants are written as the index of the alternative and its fields.
class WriteArchive {
 public:
  template <typename... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  std::string take() { return std::move(writer_).take(); }

 private:
  template <typename T>
  void one(T& value) {
    if constexpr (std::is_integral_v<T>) {
      writer_.put(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      writer_.put(std::string_view(value));
    } else {
      fields(*this, value);
    }
  }
  template <typename T>
  void one(std::vector<T>& list) {
    writer_.put(static_cast<std::uint32_t>(list.size()));
    for (T& item : list) one(item);
  }
  template <typename... T>
  void one(std::variant<T...>& value) {
    writer_.put(static_cast<std::uint8_t>(value.index()));
    std::visit([this](auto& alternative) { this->one(alternative); }, value);
  }
  Writer writer_;
};

class ReadArchive {
 public:
  explicit ReadArchive(std::string_view data) : reader_(data) {}
  template <typename... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  void expect_end() const { reader_.expect_end(); }

 private:
  template <typename T>
  void one(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = reader_.get_bool();
    } else if constexpr (std::is_integral_v<T>) {
      value = reader_.get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = reader_.get_text();
    } else {
      fields(*this, value);
    }
  }
  template <typename T>
  void one(std::vector<T>& list) {
    list = reader_.get_list<T>(1, [this] {
      T item{};
      one(item);
      return item;
    });
  }
  template <typename... T>
  void one(std::variant<T...>& value) {
    const auto index = reader_.get<std::uint8_t>();
    choose(value, index, std::index_sequence_for<T...>{});
  }
  template <typename Variant, std::size_t... I>
  void choose(Variant& value, std::size_t index, std::index_sequence<I...>) {
    const bool found = ((I == index && (one(value.template emplace<I>()), true)) || ...);
    if (!found) throw Error(ErrorCode::protocol_error, "message of an unknown type");
  }
  Reader reader_;
};

template <typename Message>
std::string write(Message message) {
  WriteArchive archive;
  archive(message);
  return archive.take();
}

template <typename Message>
Message read(std::string_view data) {
  Message message;
  ReadArchive archive(data);
  archive(message);
  archive.expect_end();
  return message;
}

std::string flag_text(std::uint32_t flags) {
  std::string text = (flags & kReadOnly) != 0 ? "ro" : "rw";
  if ((flags & kNoSuid) != 0) text += ",nosuid";
  if ((flags & kNoDev) != 0) text += ",nodev";
  if ((flags & kNoExec) != 0) text += ",noexec";
  return text;
}

// clang-format off
struct Describe {
  std::string operator()(const EnterCgroups&) const { return "enter the cgroups"; }
  std::string operator()(const NewCgroupNamespace&) const { return "new cgroup namespace"; }
  std::string operator()(const BringLoopbackUp&) const { return "bring lo up"; }
  std::string operator()(const HandOverNetwork&) const { return "configure the network"; }
  std::string operator()(const HandOverMounts&) const { return "hand over the mounts"; }
  std::string operator()(const SetHostname& s) const { return str("set hostname ", s.name); }
  std::string operator()(const NewRoot& s) const { return str("new root of ", s.bytes, " bytes and ", s.inodes, " inodes"); }
  std::string operator()(const BindRoot& s) const { return str("bind ", s.source, " as the root (", flag_text(s.flags), ")"); }
  std::string operator()(const MakeDirectory& s) const { return str("make directory ", s.target); }
  std::string operator()(const MakeSymlink& s) const { return str("make symlink ", s.target, " to ", s.content); }
  std::string operator()(const MakeFile& s) const { return str("make file ", s.target); }
  std::string operator()(const BindHost& s) const { return str("bind ", s.source, " at ", s.target, " (", flag_text(s.flags), ")"); }
  std::string operator()(const BindTemplate& s) const { return str("bind ", s.source, " of the template at ", s.target, " (", flag_text(s.flags), ")"); }
  std::string operator()(const BindInside& s) const { return str("bind ", s.source, " at ", s.target, " (", flag_text(s.flags), ")"); }
  std::string operator()(const MakeTmpfs& s) const { return str("tmpfs of ", s.bytes, " bytes at ", s.target); }
  std::string operator()(const AttachMount& s) const { return str("attach a mount at ", s.target); }
  std::string operator()(const MakeScratch& s) const { return str("scratch of ", s.bytes, " bytes and ", s.inodes, " inodes"); }
  std::string operator()(const BindScratch& s) const { return str("scratch at ", s.target, " (", flag_text(s.flags), ")"); }
  std::string operator()(const MountOverlay& s) const { return str("writable layer over ", s.target); }
  std::string operator()(const MountProc& s) const { return str("proc at ", s.target); }
  std::string operator()(const MountTerminals& s) const { return str("terminals at ", s.target); }
  std::string operator()(const MaskPath& s) const { return str("mask ", s.target); }
  std::string operator()(const MakeReadOnly& s) const { return str("make ", s.target, " read-only"); }
  std::string operator()(const PivotRoot&) const { return "change the root"; }
  std::string operator()(const Unmount& s) const { return str("unmount ", s.target); }
  std::string operator()(const EnterUserNamespace& s) const { return str("enter the user namespace as ", s.uid); }
  std::string operator()(const SetResourceLimit& s) const { return str("resource limit ", s.resource, " = ", s.value); }
  std::string operator()(const DropPrivileges&) const { return "drop privileges"; }
  std::string operator()(const InstallFilter& s) const { return str("install a system call filter of ", s.program.size() / 8, " instructions"); }
  std::string operator()(const OwnInodes& s) const { return str("own inodes for ", join(s.paths, " ")); }
};
// clang-format on

}  // namespace

std::string encode(const LaunchRequest& request) {
  return write(request);
}
std::string encode(const LaunchReply& reply) {
  return write(reply);
}
LaunchRequest decode_launch_request(std::string_view data) {
  return read<LaunchRequest>(data);
}
LaunchReply decode_launch_reply(std::string_view data) {
  return read<LaunchReply>(data);
}

std::string describe(const Step& step) {
  return std::visit(Describe{}, step);
}

}  // namespace caisson::wire
