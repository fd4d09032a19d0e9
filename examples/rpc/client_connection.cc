// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/client_connection.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/sync/cancel_scope.h"

namespace weft::rpc {

std::uint64_t ClientConnection::CallTable::Enter(PendingCall* call) {
  const std::scoped_lock lock(mutex_);
  if (closed_) return 0;
  std::uint32_t index = first_free_;
  if (index == kNone) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    first_free_ = slots_[index].next_free;
  }
  ++count_;
  slots_[index].call = call;
  return std::uint64_t{slots_[index].use} << 32 | index;
}

ClientConnection::PendingCall* ClientConnection::CallTable::Take(std::uint64_t id) {
  const auto index = static_cast<std::uint32_t>(id);
  const std::scoped_lock lock(mutex_);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  if (slot.use != id >> 32 || slot.call == nullptr) return nullptr;
  --count_;
  // The last use of a slot: it is not free any more (CC2).
  if (++slot.use != 0) slot.next_free = std::exchange(first_free_, index);
  return std::exchange(slot.call, nullptr);
}

std::vector<ClientConnection::PendingCall*> ClientConnection::CallTable::Close() {
  std::vector<PendingCall*> calls;
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  for (Slot& slot : slots_) {
    if (slot.call != nullptr) calls.push_back(std::exchange(slot.call, nullptr));
  }
  count_ = 0;
  return calls;
}

bool ClientConnection::CallTable::CloseIfEmpty() {
  const std::scoped_lock lock(mutex_);
  if (count_ == 0) closed_ = true;
  return count_ == 0;
}

void ClientConnection::Call(const google::protobuf::MethodDescriptor* method, Controller* controller,
                            const google::protobuf::Message& request, google::protobuf::Message* answer) {
  if (writer_.TooMuchUnsent()) {
    return controller->SetNotBegun(OVERLOADED, "too many requests wait to be sent: the server does not read them");
  }
  const Attachment& attachment = controller->request_attachment_;
  if (const std::size_t size = request.ByteSizeLong() + attachment.ByteSize(); size > limits_.max_body) {
    return controller->SetNotBegun(
        TOO_LARGE, base::StrCat("the request has ", size, " bytes, at most ", limits_.max_body, " are sent"));
  }
  const Deadline deadline = controller->deadline();
  RequestMeta meta;
  meta.set_service(method->service()->full_name());
  meta.set_method(method->name());
  meta.set_attachment_size(static_cast<std::uint32_t>(attachment.ByteSize()));
  if (!deadline.is_none()) {
    const std::chrono::nanoseconds left = deadline.remaining();
    if (left <= left.zero()) {
      return controller->SetNotBegun(DEADLINE_EXCEEDED, "the deadline has passed before the call");
    }
    meta.set_timeout_us(static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::microseconds>(left).count()));
  }
  PendingCall call;
  const std::uint64_t id = calls_.Enter(&call);
  if (id == 0) return controller->SetNotBegun(UNAVAILABLE, "the connection has just ended");
  OutFramePtr frame = MakeFrame(FrameKind::kRequest, id, &meta, &request, attachment.Share());
  ErrorCode refusal = OK;
  const char* why = "";
  if (!controller->BeginCall(this, id)) {
    refusal = CANCELED;
    why = "canceled before the call";
  } else if (!writer_.Write(std::move(frame))) {
    refusal = UNAVAILABLE;
    why = "the connection has just failed";
  }
  const bool sent = refusal == OK;
  bool ended = false;
  std::exception_ptr thrown;  // FiberCancelled, or what somebody throws into the fiber
  if (sent) {
    refusal = DEADLINE_EXCEEDED;
    why = "no answer within the time";
    try {
      ended = call.ended.Wait(deadline);
    } catch (...) {
      thrown = std::current_exception();
      refusal = CANCELED;
      why = "the caller was canceled";
    }
  }
  if (!ended) {
    if (calls_.Take(id) != nullptr) {
      call.code = refusal;
      call.text = why;
      if (sent) SendCancel(id);
    } else {
      Shielded([&call] { call.ended.Wait(); });  // CC1: another thread is about to say how it ended.
    }
  }
  if (!sent) {
    // The connection may have ended meanwhile, and with it the call.
    if (call.code == CONNECTION_LOST) call.code = UNAVAILABLE;
    call.not_begun = call.code != OK;
  }
  controller->EndCall();
  LeaveIfDone();
  Finish(&call, controller, answer);
  if (thrown) std::rethrow_exception(thrown);
}

void ClientConnection::SendCancel(std::uint64_t id) {
  static_cast<void>(writer_.Write(MakeFrame(FrameKind::kCancel, id, nullptr, nullptr)));  // Lost: nothing to cancel.
}

void ClientConnection::Finish(PendingCall* call, Controller* controller, google::protobuf::Message* answer) {
  if (call->not_begun) return controller->SetNotBegun(call->code, std::move(call->text));
  if (call->code != OK) return controller->SetFailed(call->code, std::move(call->text));
  Frame& frame = call->answer;
  if (!frame.meta.empty()) {
    AnswerMeta meta;
    if (!meta.ParseFromArray(frame.meta.data(), static_cast<int>(frame.meta.size()))) {
      return controller->SetFailed(BAD_ANSWER, "the answer's meta is no AnswerMeta");
    }
    if (meta.error_code() != OK && meta.not_begun()) {
      return controller->SetNotBegun(meta.error_code(), meta.error_text());
    }
    if (meta.error_code() != OK) return controller->SetFailed(meta.error_code(), meta.error_text());
    if (meta.attachment_size() > frame.body.size()) {
      return controller->SetFailed(BAD_ANSWER, "the answer's attachment is larger than its frame");
    }
    controller->answer_attachment_ = frame.CutAttachment(meta.attachment_size());
  }
  if (!answer->ParseFromArray(frame.body.data(), static_cast<int>(frame.body.size()))) {
    controller->SetFailed(BAD_ANSWER, base::StrCat("the answer is no ", answer->GetTypeName()));
  }
}

void ClientConnection::CancelCall(std::uint64_t id) {
  PendingCall* const call = calls_.Take(id);
  if (call == nullptr) return;
  call->code = CANCELED;
  call->text = "canceled";
  call->ended.Set();
  SendCancel(id);
}

bool ClientConnection::ReadOnce() {
  const std::span<char> room = reader_.Room();
  const io::IoResult result = stream_.ReadSome(room.data(), room.size(), heartbeat_.ReadUntil());
  if (!result.ok() || result.bytes == 0) return OnEnd(result);
  heartbeat_.Heard();
  reads_.store(reads_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  reader_.Filled(result.bytes);
  for (;;) {
    Frame frame;
    switch (reader_.Next(&frame)) {
      case FrameReader::Result::kNeedMore:
        return true;
      case FrameReader::Result::kFrame:
        if (OnFrame(&frame)) break;
        [[fallthrough]];
      case FrameReader::Result::kTooLarge:
      case FrameReader::Result::kMalformed:
        end_text_ = base::StrCat("the server sent ", reader_.error().empty() ? "a request" : reader_.error());
        return false;
    }
  }
}

bool ClientConnection::OnEnd(const io::IoResult& result) {
  if (result.ok()) return false;
  if (result.error == std::errc::timed_out) {
    if (heartbeat_.MayPing()) {
      static_cast<void>(writer_.Write(MakeFrame(FrameKind::kPing, 0, nullptr, nullptr)));  // Failed: as the next read.
      return true;
    }
    end_text_ = "the server does not answer a ping";
    return false;
  }
  end_text_ = base::StrCat("the connection is lost: ", result.error.message());
  return false;
}

bool ClientConnection::OnFrame(Frame* frame) {
  switch (frame->header.kind) {
    case FrameKind::kAnswer:
      answers_.store(answers_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      if (PendingCall* const call = calls_.Take(frame->header.correlation_id)) {
        call->answer = std::move(*frame);
        call->ended.Set();
      }
      return true;
    case FrameKind::kFarewell:
      farewell_reason_ = frame->header.correlation_id;
      farewell_.store(true, std::memory_order_relaxed);
      LeaveIfDone();
      return true;
    case FrameKind::kPing:
      static_cast<void>(writer_.Write(MakeFrame(FrameKind::kPong, frame->header.correlation_id, nullptr, nullptr)));
      return true;
    case FrameKind::kPong:
      return true;
    case FrameKind::kRequest:
    case FrameKind::kCancel:
      break;
  }
  return false;
}

void ClientConnection::LeaveIfDone() {
  // relaxed: the server shuts down in the end whether we see it or not. Closed first: a call that has chosen this
  // connection and comes too late learns that it was not begun.
  if (farewell_.load(std::memory_order_relaxed) && calls_.CloseIfEmpty()) Shutdown();
}

void ClientConnection::Close() {
  Shutdown();
  for (PendingCall* call : calls_.Close()) {
    call->code = CONNECTION_LOST;
    call->text = end_text_;
    call->ended.Set();
  }
}

}  // namespace weft::rpc
