// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// gRPC calls from fibers: CallUnary, CallServerStream, CallClientStream, CallBidiStream.  They read like gRPC's
// blocking calls and block the fiber only.  For programs that have gRPC: CMake target weft::grpc.
// Sample:
//   auto stub = pb::Greeter::NewStub(channel);
//   grpc::ClientContext context;
//   context.set_deadline(std::chrono::system_clock::now() + 1s);
//   grpc::Status status = weft::interop::CallUnary(*stub, &pb::Greeter::Stub::async::Greet, &context, ask, &answer);
// Sample:
//   auto reader = weft::interop::CallServerStream(*stub, &pb::Greeter::Stub::async::Watch, &context, ask);
//   while (reader.Read(&answer)) Use(answer);
//   grpc::Status status = reader.Finish();
// Sample:
//   auto writer = weft::interop::CallClientStream(*stub, &pb::Greeter::Stub::async::Upload, &context, &answer);
//   while (Next(&ask) && writer.Write(ask)) {
//   }
//   grpc::Status status = writer.Finish();  // waits for the answer
// Sample:
//   auto stream = weft::interop::CallBidiStream(*stub, &pb::Greeter::Stub::async::Chat, &context);
//   weft::FiberScope scope;
//   if (!scope.Spawn([&] {                  // the stream's writer, beside its reader
//         while (Next(&ask) && stream.Write(ask)) {
//         }
//         stream.WritesDone();
//       })) {
//     return;                               // refused: the destructor cancels the call
//   }
//   while (stream.Read(&answer)) Use(answer);
//   scope.Wait();
//   grpc::Status status = stream.Finish();
//
// The stub's callback interface (stub.async()) starts the call on the caller's stack and never suspends the fiber. One
// of gRPC's threads sees its end and wakes the fiber.  A mock of StubInterface works as well: then the method is
// &pb::Greeter::StubInterface::async_interface::Greet.
//
// Who may call: any fiber and any thread (which is blocked). All may switch, but WritesDone(). One fiber at a time uses
// a stream; of a bidirectional one two, a reader and a writer. Finish() and the destructor come when both have left it,
// or the process ends with a message (best effort). A call ends by its answer, its deadline (context.set_deadline), or
// context.TryCancel() from anywhere: set a deadline. See grpc_server.h for gRPC inside fibers.
//
// Scopes (sync/cancel_scope.h). A call begins with the deadline of the caller's scopes, if that is earlier than the
// context's, so the server learns of it. All that waits is a cancellation point, and as in io/ it returns a value and
// does not throw: when the fiber is cancelled, so is the call (TryCancel), and its end is waited for. The status is
// then CANCELLED, or how the call had ended already. In a cancelled scope CallUnary() begins no call: CANCELLED.
//
// Invariants
//   GL1  The hold (AddHold) of a stream keeps gRPC from ending its call: OnDone comes after Finish() or the destructor
//        has released it, and after the callbacks of all operations. It is gRPC's last touch of the stream.
//   GL2  No operation is begun after one of its direction has failed, nor after Finish().
//
// Rejected: the stub's PrepareAsync interface with a completion queue and a polling thread of ours (the callback
// interface has both). WritesDone() that waits until it was sent (nothing follows from that).
#ifndef WEFT_INTEROP_GRPC_CLIENT_H_
#define WEFT_INTEROP_GRPC_CLIENT_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/interop/grpc/grpc_completion.h"
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

// One direction of a stream.  One fiber at a time.
struct ClientDirection {
  bool over = false;    // GL2
  bool failed = false;  // Over, and not by the caller's word.
  GrpcCompletion operation;
};

// What streams of all kinds share.  Reactor: one of gRPC's three for streams.
template <class Reactor>
class ClientStream : protected Reactor {
 public:
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

 protected:
  // The derived class asks its stub for the call, and starts it.
  explicit ClientStream(grpc::ClientContext* context) : context_(context) { PassDeadlineOn(context); }
  ~ClientStream() override = default;

  void Start() {
    ended_.Begin("a gRPC client stream");
    this->AddHold();  // GL1
    this->StartCall();
  }

  template <class Response>
  bool ReadInto(Response* response, ClientDirection& reading, const char* caller) {
    WEFT_CHECK(!finished_, caller, ": after Finish()");
    if (reading.over) return false;
    reading.operation.Begin(caller);
    PutReadMark(response);
    this->StartRead(response);
    reading.over = !AwaitOrCancel(reading.operation);
    const bool nothing_came = TakeReadMark(response);
    if (reading.over && !nothing_came) {
      unparsable_ = true;
      Cancel();  // gRPC has thrown the message away. What follows it is not read.
    }
    return !reading.over;
  }

  template <class Request>
  bool WriteOf(const Request& request, grpc::WriteOptions options, ClientDirection& writing, const char* caller) {
    WEFT_CHECK(!finished_, caller, ": after Finish()");
    if (writing.over) return false;
    writing.operation.Begin(caller);
    this->StartWrite(&request, options);
    const bool ok = AwaitOrCancel(writing.operation);
    writing.failed = !ok;
    writing.over = !ok || options.is_last_message();
    return ok;
  }

  // Its callback, OnWritesDoneDone, is not awaited: OnDone comes after it (GL1).
  void EndWrites(ClientDirection& writing) {
    if (writing.over) return;
    writing.over = true;
    this->StartWritesDone();
  }

  void Cancel() noexcept { context_->TryCancel(); }

  // Releases the hold, and parks until the call is over.
  grpc::Status AwaitEnd() noexcept {
    finished_ = true;
    this->RemoveHold();
    static_cast<void>(AwaitOrCancel(ended_));
    if (unparsable_) return grpc::Status(grpc::StatusCode::INTERNAL, "a message of the server cannot be parsed");
    return std::move(status_);
  }

  bool finished() const { return finished_; }

 private:
  void OnDone(const grpc::Status& status) final {
    status_ = status;
    ended_.End(true);
  }

  bool AwaitOrCancel(GrpcCompletion& operation) noexcept {
    return operation.AwaitOr([this] { Cancel(); });
  }

  grpc::ClientContext* const context_;
  bool finished_ = false;
  bool unparsable_ = false;  // Set by the fiber that reads.
  GrpcCompletion ended_;
  grpc::Status status_;
};

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

// One call of a server-streaming method.
template <class Response>
class FiberClientReader final : private detail::ClientStream<grpc::ClientReadReactor<Response>> {
 public:
  // Starts the call.  `context` and `request` have to live as long as the reader.
  template <class Stub, class Async, class Request>
  FiberClientReader(Stub& stub,
                    void (Async::*method)(grpc::ClientContext*, const Request*, grpc::ClientReadReactor<Response>*),
                    grpc::ClientContext* context, const std::type_identity_t<Request>& request)
      : FiberClientReader::ClientStream(context) {
    (stub.async()->*method)(context, &request, this);
    this->Start();
  }
  // If Finish() was not called: cancels the call and waits for its end.
  ~FiberClientReader() override {
    if (this->finished()) return;
    reading_.operation.CheckNobodyAwaits("FiberClientReader's destructor");
    this->Cancel();
    static_cast<void>(this->AwaitEnd());
  }

  // Parks until the next message is there. False: there are no more, the fiber is cancelled, or the message cannot be
  // parsed, which ends the call; Finish() says why. (Of messages that are not protobuf's, or of its lite runtime, one
  // that cannot be parsed looks like the end; the call goes on then, and Finish() waits for its end.)
  [[nodiscard]] bool Read(Response* response) { return this->ReadInto(response, reading_, "FiberClientReader::Read"); }

  // Parks until the call is over, and returns how it ended.  Call it once.  If Read() has not returned false yet, it
  // cancels the call first: gRPC does not end a call that has unread messages.
  grpc::Status Finish() {
    WEFT_CHECK(!this->finished(), "FiberClientReader::Finish: called twice");
    reading_.operation.CheckNobodyAwaits("FiberClientReader::Finish");
    if (!reading_.over) this->Cancel();
    return this->AwaitEnd();
  }

 private:
  void OnReadDone(bool ok) override { reading_.operation.End(ok); }

  detail::ClientDirection reading_;
};

// One call of a client-streaming method.
template <class Request>
class FiberClientWriter final : private detail::ClientStream<grpc::ClientWriteReactor<Request>> {
 public:
  // Starts the call.  `context` and `response` have to live as long as the writer; Finish() fills the response.
  template <class Stub, class Async, class Response>
  FiberClientWriter(Stub& stub,
                    void (Async::*method)(grpc::ClientContext*, Response*, grpc::ClientWriteReactor<Request>*),
                    grpc::ClientContext* context, std::type_identity_t<Response>* response)
      : FiberClientWriter::ClientStream(context) {
    (stub.async()->*method)(context, response, this);
    this->Start();
  }
  // If Finish() was not called: cancels the call and waits for its end.
  ~FiberClientWriter() override {
    if (this->finished()) return;
    writing_.operation.CheckNobodyAwaits("FiberClientWriter's destructor");
    this->Cancel();
    static_cast<void>(this->AwaitEnd());
  }

  // Parks until gRPC has taken the message (as much as flow control lets through); whether the server has got it, only
  // the status says. False: the call is over, or the fiber is cancelled; further writes fail, too. Finish() says why.
  [[nodiscard]] bool Write(const Request& request, grpc::WriteOptions options = grpc::WriteOptions()) {
    return this->WriteOf(request, options, writing_, "FiberClientWriter::Write");
  }

  // Tells the server that this was all. Parks until the call is over, and returns how it ended. Call it once.
  grpc::Status Finish() {
    WEFT_CHECK(!this->finished(), "FiberClientWriter::Finish: called twice");
    writing_.operation.CheckNobodyAwaits("FiberClientWriter::Finish");
    this->EndWrites(writing_);
    return this->AwaitEnd();
  }

 private:
  void OnWriteDone(bool ok) override { writing_.operation.End(ok); }

  detail::ClientDirection writing_;
};

// One call of a method that streams in both directions.  One fiber reads, one writes: the same, or two at once.
template <class Request, class Response>
class FiberClientStream final : private detail::ClientStream<grpc::ClientBidiReactor<Request, Response>> {
 public:
  // Starts the call.  `context` has to live as long as the stream.
  template <class Stub, class Async>
  FiberClientStream(Stub& stub,
                    void (Async::*method)(grpc::ClientContext*, grpc::ClientBidiReactor<Request, Response>*),
                    grpc::ClientContext* context)
      : FiberClientStream::ClientStream(context) {
    (stub.async()->*method)(context, this);
    this->Start();
  }
  // If Finish() was not called: cancels the call and waits for its end.
  ~FiberClientStream() override {
    if (this->finished()) return;
    CheckNobodyUsesIt("FiberClientStream's destructor");
    this->Cancel();
    static_cast<void>(this->AwaitEnd());
  }

  // As FiberClientReader's and FiberClientWriter's, also for messages that cannot be parsed. A fiber that is cancelled
  // in one of them cancels the call, hence also ends what the other fiber waits for.
  [[nodiscard]] bool Read(Response* response) { return this->ReadInto(response, reading_, "FiberClientStream::Read"); }
  [[nodiscard]] bool Write(const Request& request, grpc::WriteOptions options = grpc::WriteOptions()) {
    return this->WriteOf(request, options, writing_, "FiberClientStream::Write");
  }

  // The fiber that writes: tells the server that this was all. Does not switch. Further writes return false.
  void WritesDone() {
    WEFT_CHECK(!this->finished(), "FiberClientStream::WritesDone: after Finish()");
    writing_.operation.CheckNobodyAwaits("FiberClientStream::WritesDone");
    this->EndWrites(writing_);
  }

  // Parks until the call is over, and returns how it ended.  Call it once.  If Read() has not returned false yet, it
  // cancels the call first: gRPC does not end a call that has unread messages. If a Write() has failed the call is
  // over: then it drops the unread messages, and the status is the server's.
  grpc::Status Finish() {
    WEFT_CHECK(!this->finished(), "FiberClientStream::Finish: called twice");
    CheckNobodyUsesIt("FiberClientStream::Finish");
    if (writing_.failed) DropUnread();
    if (!reading_.over) this->Cancel();
    return this->AwaitEnd();
  }

 private:
  void CheckNobodyUsesIt(const char* caller) const {
    reading_.operation.CheckNobodyAwaits(caller);
    writing_.operation.CheckNobodyAwaits(caller);
  }
  void DropUnread() {
    Response unread;
    while (this->ReadInto(&unread, reading_, "FiberClientStream::Finish")) {
    }
  }
  void OnReadDone(bool ok) override { reading_.operation.End(ok); }
  void OnWriteDone(bool ok) override { writing_.operation.End(ok); }

  detail::ClientDirection reading_;
  detail::ClientDirection writing_;
};

// Each starts a call; the types are deduced from the method.
template <class Stub, class Async, class Request, class Response>
[[nodiscard]] FiberClientReader<Response> CallServerStream(
    Stub& stub, void (Async::*method)(grpc::ClientContext*, const Request*, grpc::ClientReadReactor<Response>*),
    grpc::ClientContext* context, const std::type_identity_t<Request>& request) {
  return FiberClientReader<Response>(stub, method, context, request);
}

// Starts a call whose requests are streamed.
template <class Stub, class Async, class Request, class Response>
[[nodiscard]] FiberClientWriter<Request> CallClientStream(
    Stub& stub, void (Async::*method)(grpc::ClientContext*, Response*, grpc::ClientWriteReactor<Request>*),
    grpc::ClientContext* context, std::type_identity_t<Response>* response) {
  return FiberClientWriter<Request>(stub, method, context, response);
}

// Starts a call that streams both ways.
template <class Stub, class Async, class Request, class Response>
[[nodiscard]] FiberClientStream<Request, Response> CallBidiStream(
    Stub& stub, void (Async::*method)(grpc::ClientContext*, grpc::ClientBidiReactor<Request, Response>*),
    grpc::ClientContext* context) {
  return FiberClientStream<Request, Response>(stub, method, context);
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_GRPC_CLIENT_H_
