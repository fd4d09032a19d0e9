// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// gRPC calls from fibers: CallUnary, FiberClientReader.  They read like gRPC's blocking calls and block the fiber only.
// For programs that have gRPC: CMake target weft::grpc.
// Sample:
//   auto stub = pb::Greeter::NewStub(channel);
//   grpc::ClientContext context;
//   context.set_deadline(std::chrono::system_clock::now() + 1s);
//   grpc::Status status = weft::interop::CallUnary(*stub, &pb::Greeter::Stub::async::Greet, &context, ask, &answer);
// Sample:
//   weft::interop::FiberClientReader<pb::Answer> reader(*stub, &pb::Greeter::Stub::async::Watch, &context, ask);
//   while (reader.Read(&answer)) Use(answer);
//   grpc::Status status = reader.Finish();
//
// The stub's callback interface (stub.async()) starts the call on the caller's stack and never suspends the fiber. One
// of gRPC's threads sees its end and wakes the fiber.  A mock of StubInterface works as well: then the method is
// &pb::Greeter::StubInterface::async_interface::Greet.
//
// Who may call: any fiber and any thread (which is blocked).  All may switch.  A call ends by its answer, its deadline
// (context.set_deadline), or context.TryCancel() from anywhere: set a deadline. The notes on gRPC inside fibers in
// grpc_server.h hold here too.
//
// Scopes (sync/cancel_scope.h).  A call begins with the deadline of the caller's scopes, if that is earlier than the
// context's, so the server learns how much time is left.  All that waits is a cancellation point, and as io/ it returns
// a value and does not throw: when the fiber is cancelled, the call is (TryCancel, which tells the server), and its
// end, which comes soon, is waited for.  The status is then CANCELLED, or how the call had ended already.  In a
// cancelled scope CallUnary() begins no call: CANCELLED.
//
// Rejected: the stub's PrepareAsync interface with a completion queue and a polling thread of ours (the callback
// interface has both).

#ifndef WEFT_INTEROP_GRPC_CLIENT_H_
#define WEFT_INTEROP_GRPC_CLIENT_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <type_traits>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/deadline.h"
#include "weft/interop/grpc_completion.h"
#include "weft/sync/cancel_scope.h"

namespace weft::interop {

namespace detail {

inline void PassDeadlineOn(grpc::ClientContext* context) {
  const Deadline deadline = CurrentDeadline();
  if (deadline.is_none() || Deadline(context->deadline()) <= deadline) return;
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::ceil<std::chrono::system_clock::duration>(deadline.remaining()));
}

inline grpc::Status CancelledBeforeTheCall() {
  return grpc::Status(grpc::StatusCode::CANCELLED, "the calling fiber is cancelled");
}

}  // namespace detail

// Calls the unary method and waits for its end.
template <class Stub, class Async, class Request, class Response>
grpc::Status CallUnary(Stub& stub,
                       void (Async::*method)(grpc::ClientContext*, const Request*, Response*,
                                             std::function<void(grpc::Status)>),
                       grpc::ClientContext* context, const std::type_identity_t<Request>& request,
                       std::type_identity_t<Response>* response) {
  struct {
    detail::GrpcCompletion ended;
    grpc::Status status;
  } call;
  if (IsCancelRequested()) return detail::CancelledBeforeTheCall();
  detail::PassDeadlineOn(context);
  call.ended.Begin("CallUnary");
  (stub.async()->*method)(context, &request, response, [&call](grpc::Status status) {
    call.status = std::move(status);
    call.ended.End(true);
  });
  static_cast<void>(call.ended.AwaitOr([context] { context->TryCancel(); }));
  return std::move(call.status);
}

// One call of a server-streaming method.  One fiber at a time.
//
// A hold (ClientReadReactor::AddHold) keeps gRPC from ending the call between two reads; Finish() releases it.
template <class Response>
class FiberClientReader final : private grpc::ClientReadReactor<Response> {
 public:
  // Starts the call.  `context` and `request` have to live as long as the reader.
  template <class Stub, class Async, class Request>
  FiberClientReader(Stub& stub,
                    void (Async::*method)(grpc::ClientContext*, const Request*, grpc::ClientReadReactor<Response>*),
                    grpc::ClientContext* context, const std::type_identity_t<Request>& request)
      : context_(context) {
    detail::PassDeadlineOn(context);
    ended_.Begin("FiberClientReader");
    (stub.async()->*method)(context, &request, this);
    this->AddHold();
    this->StartCall();
  }
  FiberClientReader(const FiberClientReader&) = delete;
  FiberClientReader& operator=(const FiberClientReader&) = delete;
  // If Finish() was not called: cancels the call and waits for its end.
  ~FiberClientReader() override {
    if (!finished_) static_cast<void>(Finish());
  }

  // Parks until the next message is there.  False: there are no more, or the fiber is cancelled; Finish() says why.
  [[nodiscard]] bool Read(Response* response) {
    WEFT_CHECK(!finished_, "FiberClientReader::Read: after Finish()");
    if (at_end_) return false;
    read_.Begin("FiberClientReader::Read");
    this->StartRead(response);
    at_end_ = !read_.AwaitOr([this] { context_->TryCancel(); });
    return !at_end_;
  }

  // Parks until the call is over, and returns how it ended.  Call it once.  If Read() has not returned false yet, it
  // cancels the call first: gRPC does not end a call that has unread messages.
  grpc::Status Finish() {
    WEFT_CHECK(!finished_, "FiberClientReader::Finish: called twice");
    finished_ = true;
    if (!at_end_) context_->TryCancel();
    this->RemoveHold();
    static_cast<void>(ended_.AwaitOr([this] { context_->TryCancel(); }));
    return std::move(status_);
  }

 private:
  void OnReadDone(bool ok) override { read_.End(ok); }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    ended_.End(true);
  }

  grpc::ClientContext* const context_;
  bool at_end_ = false;
  bool finished_ = false;
  detail::GrpcCompletion read_;
  detail::GrpcCompletion ended_;
  grpc::Status status_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_GRPC_CLIENT_H_
