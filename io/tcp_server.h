// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TcpServer: accepts connections and runs a handler for each in a fiber of its own, or for each request.
// Sample:
//     io::TcpListener listener;
//     if (auto error = listener.Listen(*io::SocketAddress::Parse("0.0.0.0:8080"))) return error;
//     io::TcpServer server(std::move(listener), [](io::TcpStream& stream) { ... });  // ends: the connection is closed
//     if (!server.Start()) ...
//     ...
//     server.Stop(5s);
//
// Who may call: Start(), StopAccepting(), Stop() and the destructor: one fiber or thread at a time, not a handler.
// All else: any. Many fibers call the handler at once; an exception is logged, and ends its connection.
//
// A connection may wait without a fiber. A RequestHandler is called when the first bytes of a request have come, in a
// fiber that is started then; it reads them by TcpConnection::ReadRequest(), answers, and says whether the connection
// waits for the next request. Until then the connection is its descriptor and less than 1 KB: no stack, no buffer.
// Sample:
//     const auto echo = [](io::TcpConnection& connection) {
//       char line[256];
//       const io::IoResult got = connection.ReadRequest(line, sizeof(line));
//       if (got.bytes == 0) return io::AfterRequest::kClose;    // the client has gone, or the drain
//       const bool written = connection.stream().WriteAll(line, got.bytes).ok();
//       return written ? io::AfterRequest::kWaitForNext : io::AfterRequest::kClose;
//     };
//     io::TcpListener listener;
//     io::TcpServer server(std::move(listener), io::RequestHandler(echo));
// The handler keeps bytes that it has not answered: it is called again when further ones come. It may be called without
// any; then its ReadRequest() says so. A connection's fibers run one after the other, each sees what the former did,
// and TcpConnection::state() is for what they keep. Each has the execution context of Start(), or that of Options.
// A connection that a drain or a time-out ends while it waits is closed, and the handler is not called. A protocol that
// says good-bye has RequestHandler::Goodbye for that, which is called before, in a fiber, and for which Stop() waits.
// It is not called after the deadline of Stop(), nor where the handler ends the connection.
// A protocol whose server speaks first has a greeting, which is called once, in the connection's first fiber: it writes
// what it has to say, or makes TcpConnection::state(), does not read, and may end the connection, as its exception
// does. first_request_timeout counts from its end.
//
// Stop() drains:
//
//     accepting --Stop()--> accepts what waits in the kernel, closes the listener; ends idle connections
//               --no connection is left--> ends
//               --the deadline--> cancels the handlers, shuts their connections down --they have returned--> ends
//
// A handler that takes a TcpConnection (io/tcp_connection.h) is idle in ReadRequest(). The drain ends it there when it
// has waited for Options::idle_at_stop, in which a busy client's next request comes. A client that is never idle for so
// long is ended after Options::first_request_at_stop, at the next wait for which no request has come. A connection that
// has sent no request yet has first_request_at_stop from its acceptance. Requests that have begun are answered.
//
// A handler that takes a TcpStream does not say when it is idle. After idle_at_stop of the drain its reads get what has
// come and then the end of the stream. On a TCP connection that has sent nothing yet, or has sent something since the
// last answer, that is put off for first_request_at_stop, so that the request may come to its end.
//
// The handler may close the stream, but not move from it or assign to it: Stop() uses it at the same time.
//
// At the deadline all handlers that still run are cancelled, with the fibers of their scopes (sync/cancel_scope.h), and
// their connections are shut down both ways. Stop() returns when all handlers have returned: one that shields itself
// for long holds it up. A handler that shares locals with fibers that it has started has them in a FiberScope, or waits
// for them under a shield. To end a request whose client has gone: io/cancel_on_hangup.h.
//
// Invariants
//   TV1  A connection that the kernel has made before the last look at the listener is accepted, and its handler runs;
//        unless the deadline of Stop() passes before, or the process has no descriptors or memory. The listener closes
//        right after that look. During the look no handshake begins (TcpListener::StopHandshakes()), and it goes on for
//        Options::handshakes_at_stop, in which those that have begun come to their end. On a Unix socket, and on one
//        that other processes may have, connections go on coming, and the look takes no time: a later one is reset, or
//        left to the other processes. The look waits for no handler: Options::max_connections does not count.
//   TV2  After the deadline (cut_) no connection is added, and all that are there are cancelled once, under the lock.
//   TV3  A connection of a RequestHandler has one holder at any time, which goes on with it: its fiber; its watch,
//        while that is armed (RDW1); the thread that has ended the watch; the list of refused ones, under retry_lock_.
//   TV4  A connection whose fiber could not be started is kept, and started again a little later, or ended after the
//        deadline of Stop(): by the sweep, which ends when no connection is left in the drain.
//   TV5  The fibers of a connection that waits in a FiberLoop are started by that loop. Others take the start for one
//        that is refused (TV4): they would start it elsewhere, or where there is no runtime.
//   TV6  The drain looks again, soon, for connections that were not in the list when it looked: whoever had them (TV3)
//        tells it when they are back (LookSoon()).
//   TV7  A connection with `ends` says good-bye once and ends, unless a request has come by then. The mark stays while
//        the start of its fiber is refused (TV4), so a time-out is counted once.
#ifndef WEFT_IO_TCP_SERVER_H_
#define WEFT_IO_TCP_SERVER_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/memory/intrusive_list.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/io/reactor/readable_watch.h"
#include "weft/io/socket/peer_limit.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_liveness.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::io {

// What a RequestHandler says when it returns: the connection waits for its next request, without a fiber, or is closed.
enum class AfterRequest : std::uint8_t { kWaitForNext, kClose };

namespace detail {
// Of two time limits, of which 0 is none.
constexpr std::chrono::milliseconds ShorterLimit(std::chrono::milliseconds a, std::chrono::milliseconds b) noexcept {
  return a.count() > 0 && b.count() > 0 ? std::min(a, b) : std::max(a, b);
}
}  // namespace detail

// A handler for a TcpServer whose connections wait for requests without a fiber: see above.
// Explicit, because a lambda that returns something would do as a ConnectionHandler, too.
class RequestHandler {
 public:
  // Called with a connection that has, or may have, a request.
  using Function = std::function<AfterRequest(TcpConnection&)>;
  // Called before a drain or a time-out closes a connection that waits; may write a last word.
  using Goodbye = std::function<void(TcpConnection&)>;
  // `greeting`: called when a connection has come, before the first request, where the server speaks first.
  explicit RequestHandler(Function function, Goodbye goodbye = {}, Function greeting = {})
      : function_(std::move(function)), goodbye_(std::move(goodbye)), greeting_(std::move(greeting)) {}
  // As first_request_timeout and idle_timeout of TcpServer::Options; of two the shorter one counts. 0: none.
  void SetLongestWaits(std::chrono::milliseconds first, std::chrono::milliseconds next) noexcept {
    longest_first_wait_ = first;
    longest_wait_ = next;
  }
  // A string literal: fibers refer to it. The compiler refuses others.
  class FiberName {
   public:
    // Of this text.
    consteval FiberName(const char* literal) noexcept : text_(literal) {}  // NOLINT(google-explicit-constructor)

   private:
    friend class RequestHandler;
    const char* text_;
  };
  // Of its fibers in dumps, unless TcpServer::Options::connection_fiber has one.
  void SetFiberName(FiberName name) noexcept { fiber_name_ = name.text_; }

 private:
  friend class TcpServer;
  Function function_;
  Goodbye goodbye_;
  Function greeting_;
  std::chrono::milliseconds longest_first_wait_{0};
  std::chrono::milliseconds longest_wait_{0};
  const char* fiber_name_ = "tcp connection";
};

class TcpServer {
 public:
  // Serves a connection, which is closed when it returns. In a fiber of its own.
  using Handler = std::function<void(TcpStream&)>;
  // The same for a protocol of requests and answers, for TcpConnection::ReadRequest().
  using ConnectionHandler = std::function<void(TcpConnection&)>;

  // Limits and time-outs. All are off, or as written here, by default.
  struct Options {
    // The most connections at once; more wait in the kernel. 0: no limit. Stop() accepts those that wait, too: it would
    // otherwise have to keep the listener open, and the clients that it ends would come back to it.
    std::size_t max_connections = 0;
    // Called for each connection, in the fiber that accepts. False: resets it at once. Empty: accepts all. Cancelled at
    // the deadline of Stop(); an exception that leaves it is logged, and means false.
    std::function<bool()> admit{};
    // How the fiber of each connection is started; for a RequestHandler, that of its first request. By default the
    // connections take the groups in turn (where groups have names, those with the name of the group in which Start()
    // is called), and later requests run in the group that polls for the connection. A group given here holds for all
    // of them.
    FiberAttributes connection_fiber{.scheduling_group = kUnspecifiedSchedulingGroup};
    // For Stop(), as above. Clients that have no request in flight notice neither.
    std::chrono::milliseconds first_request_at_stop{1000};
    std::chrono::milliseconds idle_at_stop{100};
    // How long a drain goes on accepting once the kernel begins no further handshake (TV1): longer than a round trip to
    // the clients. 0: a connection being made then is reset. Clients that come meanwhile are refused a second later.
    std::chrono::milliseconds handshakes_at_stop{10};
    // For handlers that take a TcpConnection: how long a connection may wait for its first request, and for each
    // further one. Then it is closed without an answer; one that waits without a fiber, up to an eighth of that time,
    // or 5 ms, later. 0: read_timeout.
    std::chrono::milliseconds first_request_timeout{0};
    std::chrono::milliseconds idle_timeout{0};
    // TcpStream::SetTimeouts() of each connection: how long its calls without a deadline wait for the client at a time.
    std::chrono::milliseconds read_timeout{0};
    std::chrono::milliseconds write_timeout{0};
    // The most connections of one host: an IPv4 address, or a /64 prefix of IPv6 addresses. Further ones are reset at
    // once, before `admit`. 0: no limit. Behind a proxy or a NAT many clients are one host.
    std::size_t max_connections_per_host = 0;
    // For peers that vanish without a word (io/tcp_liveness.h). Start() sets them on the listener, for the connections
    // that the kernel makes from then on. The defaults set nothing. Ignored on Unix sockets.
    TcpKeepAlive keep_alive{.enabled = false};
    std::chrono::milliseconds user_timeout{0};
  };

  // Serves the connections of `listener`, from Start() on. The handler says how: see above.
  TcpServer(TcpListener listener, RequestHandler handler, Options options);
  TcpServer(TcpListener listener, RequestHandler handler);
  TcpServer(TcpListener listener, ConnectionHandler handler, Options options);
  TcpServer(TcpListener listener, ConnectionHandler handler);
  TcpServer(TcpListener listener, Handler handler, Options options);
  TcpServer(TcpListener listener, Handler handler);
  // Stop() with a deadline that has passed. Of one that still serves when its runtime has ended: it ends the process,
  // as does Stop(), with a line that says so; the destructor of a static one only writes it.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  // Once. False: the runtime starts no more fibers, or the kernel refuses keep_alive or user_timeout (which is logged).
  [[nodiscard]] bool Start();
  // The first step of Stop(), for a server that tells its clients first: accepts what waits and closes the listener;
  // connections go on. False: the deadline has passed (Options::admit waited); it is done later. A cancellation point.
  bool StopAccepting(Deadline deadline = {});
  // Returns when the last handler has returned; further calls return at once. Without a deadline it cancels no handler
  // and shuts no connection down. A cancellation point; what it then leaves running ends with the next call.
  void Stop(Deadline drain_until = {});

  // Whether its runtime has ended while it served: its fibers never run again, and Stop() ends the process, or returns
  // at once inside exit().
  bool HasLostItsRuntime() const noexcept;

  // Where it listens, with the port that the kernel has chosen.
  SocketAddress local_address() const { return local_address_; }
  // What it has counted since Start().
  struct Counts {
    // A connection that is not refused is counted here and in `open` at once: one that is not open has ended.
    std::uint64_t accepted = 0;
    // By Options::admit; or no fiber could be started, or the deadline of Stop() had passed; or the next line.
    std::uint64_t refused = 0;
    std::uint64_t over_host_limit = 0;  // Options::max_connections_per_host
    std::uint64_t not_admitted = 0;     // of `refused`: by Options::admit
    std::uint64_t not_started = 0;      // of `refused`: there was no fiber for it, or no memory
    // Connections that have waited for a request longer than first_request_timeout, idle_timeout, or read_timeout in
    // their place: each once. Other calls that a time-out ends are not counted: the handler sees their error.
    std::uint64_t timed_out = 0;
    std::size_t open = 0;  // connections that are not closed
  };
  // A snapshot. Any fiber and any thread.
  Counts counts() const;

 private:
  using TimePoint = Deadline::TimePoint;

  struct Connection : ReadableWatch {
    explicit Connection(TcpServer* owner)
        : ReadableWatch(&TcpServer::OnReadable), server(owner), connection(&owner->shared_) {}
    ~Connection() {
      if (host.has_value()) server->hosts_.Leave(*host);
    }
    TcpServer* const server;
    TcpConnection connection;
    CancelScope scope;  // around its handler
    TimePoint accepted_at;
    std::optional<PeerLimit::Host> host;  // it is counted there
    bool told = false;                    // that it ends when it is idle; guarded by the server's lock
    // Its fiber could not be started (TV4). Written under retry_lock_.
    std::atomic<bool> unstarted{false};
    bool ends = false;                                  // its fiber is to say good-bye; its owner's (TV3)
    scheduling_group::SchedulingGroup* loop = nullptr;  // the FiberLoop's that it waits in, if it is one
    base::ListHook hook;
  };
  using Connections = base::IntrusiveList<Connection, &Connection::hook>;
  enum class Served : std::uint8_t { kRequests, kConnection, kStream };  // what the handler takes

  TcpServer(TcpListener listener, Served served, RequestHandler handler, Options options);

  void AcceptAll();
  // False: no more. `in_scope`: waits until StopAcceptingLocked() cancels it, else at most until `until`.
  bool AcceptOne(bool in_scope, Deadline until);
  // Waits for memory. nullptr: there was none, and the wait has ended.
  std::unique_ptr<Connection> NewConnection(bool in_scope);
  // As above, and what was accepted.
  bool Accept(TcpStream* stream, Deadline deadline);
  bool Admits();
  bool EnterHost(Connection* connection);
  // False: the deadline of Stop() has passed.
  bool Add(Connection* connection);
  bool WaitForCapacity();
  void Serve(Connection* connection);
  // The handler, or the greeting. None: it was cancelled, or threw.
  std::optional<AfterRequest> Run(const RequestHandler::Function& function, const char* name, Connection* connection);
  void SayGoodbyeAndEnd(Connection* connection);  // of a RequestHandler
  void End(Connection* connection);

  // --- For a RequestHandler: tcp_server_requests.cc ---
  // In the fiber of a connection, until it waits for a request or ends. `readable`: begins with a request.
  void ServeRequests(Connection* connection, bool readable);
  static void OnReadable(ReadableWatch* watch) noexcept;
  // Whoever has the connection (TV3): starts its fiber.
  void Resume(Connection* connection, bool readable) noexcept;
  bool StartServing(Connection* connection, bool readable) noexcept;
  [[nodiscard]] bool StartSweep();
  void Sweep();
  void SweepAll();
  bool IsUnstarted(Connection* connection) noexcept;  // true: it is the caller's
  Deadline NextSweep() const;
  // Under the lock, and free meanwhile: what becomes of connections that the caller has (TV3), and which the server's
  // list does not have. After the deadline of Stop() they end.
  enum class Fate : std::uint8_t { kEnds, kEndsIfSilent, kTimedOut, kGoesOn };
  void Finish(Connections* connections, Fate fate, std::unique_lock<FiberMutex>* lock);

  // False: its runtime has ended, and the process does.
  bool CheckCanStop(const char* caller) const;

  // Under the lock.
  bool AllEnded() const { return !accepting_ && open_ == 0 && !sweeping_; }
  void NoteProgress();
  void LookSoon();
  void StopAcceptingLocked();
  // Ends connections that are idle, or will when they are, as far as it is time; returns when the next one is due.
  // Those that wait without a fiber go to `waiting`.
  Deadline EndIdle(TimePoint now, Connections* waiting);
  TimePoint WhenToEnd(const Connection& connection, TimePoint now) const;
  TimePoint WhenToEndStream(const Connection& connection, TimePoint now) const;
  bool TakeIfWaiting(Connection* connection, Connections* waiting);
  void Cut(Connections* waiting);

  const Served served_;
  const RequestHandler::Function handler_;  // it counts what it returns if served_ is kRequests
  const RequestHandler::Goodbye goodbye_;
  const RequestHandler::Function greeting_;
  const char* const fiber_name_;
  Options options_;
  const FiberAttributes resume_fiber_;           // of a request after the first
  base::RefPtr<FiberExecutionContext> context_;  // of Start(): the requests' if their attributes have none
  TcpListener listener_;
  SocketAddress local_address_;
  const TcpStream::Timeouts timeouts_;
  CancelScope accept_scope_;  // around the waits for connections
  CancelScope admit_scope_;   // around Options::admit and the last look; cancelled at the deadline of Stop()
  TcpConnection::Server shared_;
  PeerLimit hosts_;

  mutable FiberMutex mutex_;
  FiberConditionVariable changed_;  // a connection has ended, or the server stops
  Connections connections_;
  std::size_t open_ = 0;
  bool accepting_ = false;
  std::optional<std::uint64_t> runtimes_ended_;  // LostFibers::runtimes() at the start; none: it runs in a FiberLoop
  bool sweeping_ = false;
  bool stopping_ = false;    // accepts what waits and no more
  bool cut_ = false;         // the deadline of Stop() has passed
  TimePoint drain_began_{};  // when shared_.draining was set
  Deadline look_at_;         // of the drain: when a connection is due to be looked at; none: none is
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> over_host_limit_{0};
  std::atomic<std::uint64_t> not_admitted_{0};
  std::atomic<std::uint64_t> not_started_{0};
  base::SpinLock retry_lock_;
  FiberEvent sweep_now_;
};

}  // namespace weft::io

#endif  // WEFT_IO_TCP_SERVER_H_
