// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/use_fiber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "weft/base/unique_function.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "interop/asio_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using boost::system::error_code;
using boost::system::system_error;
using Steady = std::chrono::steady_clock;
using Socket = asio::local::stream_protocol::socket;

// The code of what f throws.
template <class F>
error_code ThrownBy(F&& f) {
  try {
    f();
  } catch (const system_error& thrown) {
    return thrown.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// One type of handler for all: each type that Asio posts makes it compile the whole way into the io_context anew.
void Post(const asio::any_io_executor& executor, base::UniqueFunction<void()> f) { asio::post(executor, std::move(f)); }

// An operation that calls its handler with `args` in the io_context.
template <class Signature, class Token, class... Args>
auto Report(asio::io_context& io, Token&& token, Args... args) {
  return asio::async_initiate<Token, Signature>(
      [&io](auto handler, auto... results) {
        Post(io.get_executor(), [handler = std::move(handler), ... results = std::move(results)]() mutable {
          std::move(handler)(std::move(results)...);
        });
      },
      token, std::move(args)...);
}

struct NotDefault {
  explicit NotDefault(int of) : value(of) {}
  int value;
};

class UseFiberTest : public WithIoContext {
 protected:
  std::pair<Socket, Socket> ConnectedPair() {
    std::pair<Socket, Socket> pair{Socket(io_), Socket(io_)};
    asio::local::connect_pair(pair.first, pair.second);
    return pair;
  }
};
WEFT_INSTANTIATE_INTEROP_SHAPES(UseFiberTest);

TEST_P(UseFiberTest, ReturnsWhatTheHandlerGets) {
  InFiberAndInThread([&] {
    static_assert(std::is_void_v<decltype(Report<void()>(io_, use_fiber))>);
    Report<void()>(io_, use_fiber);
    EXPECT_EQ(Report<void(int)>(io_, use_fiber, 1), 1);
    EXPECT_EQ(Report<void(error_code, int)>(io_, use_fiber, error_code(), 2), 2);
    EXPECT_EQ((Report<void(error_code, int, std::string)>(io_, use_fiber, error_code(), 3, std::string("three"))),
              std::make_tuple(3, std::string("three")));
    EXPECT_EQ(Report<void(const std::string&)>(io_, use_fiber, std::string("four")), "four");
    EXPECT_EQ(*Report<void(error_code, std::unique_ptr<int>)>(io_, use_fiber, error_code(), std::make_unique<int>(5)),
              5);
    EXPECT_EQ(Report<void(error_code, NotDefault)>(io_, use_fiber, error_code(), NotDefault(6)).value, 6);
    EXPECT_EQ(Report<void(std::exception_ptr, int)>(io_, use_fiber, std::exception_ptr(), 7), 7);
    EXPECT_EQ((Report<void(error_code, int) noexcept>(io_, use_fiber, error_code(), 8)), 8);
  });
}

TEST_P(UseFiberTest, ThrowsTheErrorOrStoresIt) {
  const error_code failed = asio::error::connection_reset;
  InFiberAndInThread([&] {
    EXPECT_EQ(ThrownBy([&] { Report<void(error_code, int)>(io_, use_fiber, failed, 1); }), failed);
    error_code error;
    EXPECT_EQ(Report<void(error_code, int)>(io_, use_fiber[error], failed, 2), 2);
    EXPECT_EQ(error, failed);
    EXPECT_EQ(Report<void(error_code, int)>(io_, use_fiber(30s)[error], error_code(), 3), 3);
    EXPECT_FALSE(error);
    error = failed;
    Report<void()>(io_, use_fiber[error]);
    EXPECT_FALSE(error);
    const auto thrown = std::make_exception_ptr(std::domain_error("no"));
    EXPECT_THROW(Report<void(std::exception_ptr)>(io_, use_fiber, thrown), std::domain_error);
    EXPECT_THROW((Report<void(std::exception_ptr, int)>(io_, use_fiber[error], thrown, 1)), std::domain_error);
  });
}

// It is thrown where the caller waits, not in the io_context.
TEST_P(UseFiberTest, AResultThatCannotBeMovedThrows) {
  struct Heavy {
    Heavy() = default;
    Heavy(Heavy&&) { throw std::bad_alloc(); }
  };
  InFiberAndInThread([&] {
    const auto initiate = [](auto handler) { handler(Heavy()); };
    EXPECT_THROW((asio::async_initiate<const UseFiber, void(Heavy)>(initiate, use_fiber)), std::bad_alloc);
  });
}

// With one worker the second fiber runs only because the first has left it.
TEST_P(UseFiberTest, ACallParksOnlyItsFiber) {
  std::optional<detail::AsioHandler<int>> kept;
  FiberEvent initiated;
  Fiber first([&] {
    EXPECT_EQ((asio::async_initiate<const UseFiber, void(int)>(
                  [&](auto handler) {
                    kept.emplace(std::move(handler));
                    initiated.Set();
                  },
                  use_fiber)),
              1);
  });
  Fiber second([&] {
    initiated.Wait();
    (*kept)(1);
  });
  first.Join();
  second.Join();
}

TEST_P(UseFiberTest, AHandlerMayBeCalledBeforeTheInitiationReturns) {
  InFiberAndInThread([&] {
    for (const Deadline deadline : {Deadline(), Deadline(30s), Deadline(0s)}) {
      EXPECT_EQ((asio::async_initiate<const UseFiber, void(error_code, int)>(
                    [](auto handler) { handler(error_code(), 1); }, use_fiber(deadline))),
                1);
    }
  });
}

TEST_P(UseFiberTest, AHandlerThatIsDestroyedMeansAborted) {
  InFiberAndInThread([&] {
    for (const Deadline deadline : {Deadline(), Deadline(30s)}) {
      const UseFiber token = use_fiber(deadline);
      const auto drop = [this](auto handler) { Post(io_.get_executor(), [handler = std::move(handler)] {}); };
      const error_code aborted = asio::error::operation_aborted;
      EXPECT_EQ(ThrownBy([&] { asio::async_initiate<const UseFiber, void(error_code, int)>(drop, token); }), aborted);
      EXPECT_EQ(ThrownBy([&] { asio::async_initiate<const UseFiber, void()>(drop, token); }), aborted);
      error_code error;
      EXPECT_EQ((asio::async_initiate<const UseFiber, void(error_code, int)>(drop, token[error])), 0);
      EXPECT_EQ(error, aborted);
      EXPECT_EQ(
          ThrownBy([&] { asio::async_initiate<const UseFiber, void(error_code, NotDefault)>(drop, token[error]); }),
          aborted);
    }
  });
}

TEST_P(UseFiberTest, TheEndOfAnIoContextEndsItsCalls) {
  for (const Deadline deadline : {Deadline(), Deadline(30s)}) {
    auto never_run = std::make_unique<asio::io_context>();
    FiberLatch posted(2);
    const auto wait = [&] {
      error_code error;
      asio::async_initiate<const UseFiber, void()>(
          [&](auto handler) {
            asio::post(*never_run, std::move(handler));
            posted.CountDown();
          },
          use_fiber(deadline)[error]);
      EXPECT_EQ(error, asio::error::operation_aborted);
    };
    Fiber fiber(wait);
    std::thread thread(wait);
    posted.Wait();
    never_run.reset();
    fiber.Join();
    thread.join();
  }
}

TEST_P(UseFiberTest, AnInitiationThatThrowsIsWaitedFor) {
  InFiberAndInThread([&] {
    const auto dropping = [](auto) { throw std::domain_error("refused"); };
    EXPECT_THROW((asio::async_initiate<const UseFiber, void(int)>(dropping, use_fiber)), std::domain_error);
    // The handler is under way already.
    std::atomic<bool> called{false};
    const auto keeping = [&](auto handler) {
      Post(io_.get_executor(), [&called, handler = std::move(handler)]() mutable {
        std::this_thread::yield();
        called = true;
        handler(1);
      });
      throw std::domain_error("too late");
    };
    EXPECT_THROW((asio::async_initiate<const UseFiber, void(int)>(keeping, use_fiber)), std::domain_error);
    EXPECT_TRUE(called);
  });
}

TEST_P(UseFiberTest, AtTheDeadlineAnOperationIsCancelled) {
  InFiberAndInThread([&] {
    asio::steady_timer timer(io_, Steady::time_point::max());
    const auto begin = Steady::now();
    EXPECT_EQ(ThrownBy([&] { timer.async_wait(use_fiber(5ms)); }), asio::error::timed_out);
    EXPECT_GE(Steady::now() - begin, 5ms);

    auto [ours, theirs] = ConnectedPair();
    error_code error;
    char buffer[4];
    EXPECT_EQ(ours.async_read_some(asio::buffer(buffer), use_fiber(1ms)[error]), 0u);
    EXPECT_EQ(error, asio::error::timed_out);
    EXPECT_EQ(asio::async_read(ours, asio::buffer(buffer), use_fiber(Steady::now())[error]), 0u);
    EXPECT_EQ(error, asio::error::timed_out);
    // A composed operation that has got a part.
    EXPECT_EQ(asio::async_write(theirs, asio::buffer("ab", 2), use_fiber(30s)), 2u);
    EXPECT_EQ(asio::async_read(ours, asio::buffer(buffer), use_fiber(1ms)[error]), 2u);
    EXPECT_EQ(error, asio::error::timed_out);
    // The socket is as good as before.
    EXPECT_EQ(asio::async_write(theirs, asio::buffer("abcd", 4), use_fiber), 4u);
    EXPECT_EQ(asio::async_read(ours, asio::buffer(buffer), use_fiber(30s)), 4u);
  });
}

TEST_P(UseFiberTest, AnOperationThatKnowsNoCancellationIsWaitedFor) {
  InFiberAndInThread([&] {
    asio::steady_timer timer(io_, 10ms);
    error_code error;
    const int result = asio::async_initiate<const UseFiber, void(error_code, int)>(
        [&](auto handler) {
          timer.async_wait([handler = std::move(handler)](error_code) mutable { handler(error_code(), 1); });
        },
        use_fiber(1ms)[error]);
    EXPECT_EQ(result, 1);
    EXPECT_FALSE(error);
    EXPECT_GE(Steady::now(), timer.expiry());
  });
}

// Between two steps an operation has nothing that an emission could end: the next step's handler gets one of its own.
TEST_P(UseFiberTest, AStepThatBeginsAfterTheDeadlineIsCancelledToo) {
  struct Steps {
    std::atomic<int> emissions{0};
    asio::steady_timer limit;
  };
  InFiberAndInThread([&] {
    Steps steps{.limit = asio::steady_timer(io_)};
    error_code error;
    asio::async_initiate<const UseFiber, void(error_code)>(
        [&](auto handler) {
          auto slot = asio::get_associated_cancellation_slot(handler);
          const auto executor = asio::get_associated_executor(handler, io_.get_executor());
          auto shared = std::make_shared<decltype(handler)>(std::move(handler));
          // The first step ends itself by the emission, and only then begins the second.
          slot.assign([&, slot, executor, shared](asio::cancellation_type) mutable {
            ++steps.emissions;
            Post(executor, [&, slot, shared]() mutable {
              steps.limit.expires_after(2s);  // For a second step that is never cancelled.
              steps.limit.async_wait([shared](error_code ended) { (*shared)(ended); });
              slot.assign([&](asio::cancellation_type) {
                ++steps.emissions;
                steps.limit.cancel();
              });
            });
          });
        },
        use_fiber(1ms)[error]);
    EXPECT_EQ(error, asio::error::timed_out);
    EXPECT_EQ(steps.emissions, 2);
  });
}

// So that it meets no step of the operation.
TEST_P(UseFiberTest, AnOperationIsEmittedWhereItsHandlersRun) {
  InFiberAndInThread([&] {
    const std::thread::id here = std::this_thread::get_id();
    const std::uint64_t fiber = GetFiberId();
    error_code error;
    asio::async_initiate<const UseFiber, void(error_code)>(
        [&](auto handler) {
          auto slot = asio::get_associated_cancellation_slot(handler);
          const asio::any_io_executor executor = asio::get_associated_executor(handler, io_.get_executor());
          auto shared = std::make_shared<decltype(handler)>(std::move(handler));
          slot.assign([&, executor, shared](asio::cancellation_type) {
            const auto* const strand = executor.target<asio::strand<asio::any_io_executor>>();
            EXPECT_TRUE(strand != nullptr && strand->running_in_this_thread());
            EXPECT_TRUE(fiber != 0 ? GetFiberId() == 0 : std::this_thread::get_id() != here);
            (*shared)(asio::error::operation_aborted);
          });
        },
        use_fiber(1ms)[error]);
    EXPECT_EQ(error, asio::error::timed_out);
  });
}

// The signal is on the waiter's stack.
TEST_P(UseFiberTest, TheHandlerMayBeCalledByTheEmission) {
  InFiberAndInThread([&] {
    std::atomic<bool> returned{false};
    std::atomic<bool> emission_is_over{false};
    error_code error;
    asio::async_initiate<const UseFiber, void(error_code)>(
        [&](auto handler) {
          auto slot = asio::get_associated_cancellation_slot(handler);
          auto executor = asio::get_associated_executor(handler, io_.get_executor());
          auto shared = std::make_shared<decltype(handler)>(std::move(handler));
          slot.assign([&, executor, shared](asio::cancellation_type) {
            (*shared)(asio::error::operation_aborted);
            // Time for a waiter that does not wait for us.
            for (const auto end = Steady::now() + 5ms; !returned && Steady::now() < end;) std::this_thread::yield();
            emission_is_over = true;
          });
        },
        use_fiber(1ms)[error]);
    returned = true;
    EXPECT_TRUE(emission_is_over);
    EXPECT_EQ(error, asio::error::timed_out);
  });
}

// As a wait of a cancelled fiber does. The buffers belong to the operation until its handler has been called.
TEST_P(UseFiberTest, AWaitThatThrowsCancelsAndWaitsForTheHandler) {
  struct Cancelled {};
  InFiberAndInThread([&] {
    asio::steady_timer timer(io_, 60s);
    using Handler = detail::AsioHandler<error_code>;
    Handler::Operation operation(/*cancellable=*/true);
    timer.async_wait(Handler(&operation));
    EXPECT_THROW(operation.Await([](FiberEvent&) -> bool { throw Cancelled(); }), Cancelled);
    EXPECT_EQ(ThrownBy([&] { operation.Take(/*gave_up=*/false, nullptr); }), asio::error::operation_aborted);

    // One that cannot be cancelled is waited for.
    timer.expires_after(2ms);
    Handler::Operation other(/*cancellable=*/false);
    timer.async_wait(Handler(&other));
    EXPECT_THROW(other.Await([](FiberEvent&) -> bool { throw Cancelled(); }), Cancelled);
    EXPECT_GE(Steady::now(), timer.expiry());
  });
}

TEST_P(UseFiberTest, ACancellationEndsAnOperation) {
  InFiber([&] {
    asio::steady_timer timer(io_, 1h);
    CancelScope scope;
    Fiber canceller([&] { EXPECT_TRUE(scope.Cancel()); });
    bool thrown = false;
    EXPECT_FALSE(scope.Run([&] {
      try {
        timer.async_wait(use_fiber);
      } catch (const FiberCancelled&) {
        thrown = true;
        throw;
      }
    }));
    EXPECT_TRUE(thrown);
    canceller.Join();
    EXPECT_EQ(timer.cancel(), 0u) << "its operation is over";

    // By the scope's deadline; and where an error would be stored.
    error_code error;
    EXPECT_FALSE(MoveOnAfter(1ms, [&] { timer.async_wait(use_fiber[error]); }));
    EXPECT_FALSE(MoveOnAfter(1ms, [&] { timer.async_wait(use_fiber(1h)); }));
    EXPECT_FALSE(error);
    // Also in a cancelled scope the timer is good for further operations.
    timer.expires_after(1ms);
    EXPECT_TRUE(MoveOnAfter(30s, [&] { timer.async_wait(use_fiber); }));
  });
}

// An operation that knows no cancellation is waited for to its own end.
TEST_P(UseFiberTest, ACancelledOperationThatKnowsNoCancellationHoldsItsCaller) {
  InFiber([&] {
    bool completed = false;
    CancelScope scope;
    scope.Cancel();
    EXPECT_FALSE(scope.Run([&] {
      asio::async_initiate<const UseFiber, void()>(
          [&](auto handler) {
            auto timer = std::make_shared<asio::steady_timer>(io_, 2ms);
            timer->async_wait([&completed, timer, handler = std::move(handler)](error_code) mutable {
              completed = true;
              std::move(handler)();
            });
          },
          use_fiber);
      ADD_FAILURE() << "it did not throw";
    }));
    EXPECT_TRUE(completed);
  });
}

TEST_P(UseFiberTest, HandlersRunWhereTheyAreBound) {
  const auto strand = asio::make_strand(io_);
  const auto where = [&](auto handler) {
    const auto executor = asio::get_associated_executor(handler, io_.get_executor());
    Post(executor,
         [&strand, handler = std::move(handler)]() mutable { handler(error_code(), strand.running_in_this_thread()); });
  };
  using Signature = void(error_code, bool);
  InFiberAndInThread([&] {
    const auto initiate = [&](const auto& token) {
      return asio::async_initiate<decltype(token), Signature>(where, token);
    };
    EXPECT_FALSE(initiate(use_fiber));
    EXPECT_FALSE(initiate(use_fiber(30s)));
    EXPECT_TRUE(initiate(asio::bind_executor(strand, use_fiber)));
    EXPECT_TRUE(initiate(asio::bind_executor(strand, use_fiber(30s))));
    asio::steady_timer timer(strand, 20s);
    EXPECT_EQ(ThrownBy([&] { timer.async_wait(asio::bind_executor(strand, use_fiber(1ms))); }), asio::error::timed_out);
    const auto [error] = timer.async_wait(asio::as_tuple(use_fiber(1ms)));
    EXPECT_EQ(error, asio::error::operation_aborted);
  });
}

asio::awaitable<int> EchoOnce(Socket& socket) {
  char byte;
  co_await asio::async_read(socket, asio::buffer(&byte, 1), asio::use_awaitable);
  co_await asio::async_write(socket, asio::buffer(&byte, 1), asio::use_awaitable);
  co_return byte;
}

TEST_P(UseFiberTest, ACoroutineOfAsioIsWaitedFor) {
  InFiberAndInThread([&] {
    std::pair<Socket, Socket> pair = ConnectedPair();
    Socket& ours = pair.first;
    Socket& theirs = pair.second;
    EXPECT_EQ(asio::async_write(theirs, asio::buffer("x", 1), use_fiber), 1u);
    EXPECT_EQ(asio::co_spawn(io_, EchoOnce(ours), use_fiber), 'x');
    char echo;
    EXPECT_EQ(asio::async_read(theirs, asio::buffer(&echo, 1), use_fiber), 1u);
    // In a strand: the io_context has several threads, and the coroutine is cancelled.
    const auto strand = asio::make_strand(io_);
    EXPECT_EQ(ThrownBy([&] { asio::co_spawn(strand, EchoOnce(ours), use_fiber(2ms)); }), asio::error::timed_out);
    theirs.close();
    EXPECT_EQ(ThrownBy([&] { asio::co_spawn(io_, EchoOnce(ours), use_fiber); }), asio::error::eof);
  });
}

// Completion and deadline come together, on other threads.
TEST_P(UseFiberTest, ManyDeadlinesRaceWithTheirOperations) {
  constexpr int kFibers = 30;
  constexpr int kRounds = 20;
  std::atomic<int> in_time{0};
  std::atomic<int> late{0};
  FiberLatch all_done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      for (int k = 0; k < kRounds; ++k) {
        {
          auto [ours, theirs] = ConnectedPair();
          asio::steady_timer timer(io_, std::chrono::microseconds(100 + 7 * ((i + k) % 10)));
          timer.async_wait([&theirs = theirs](error_code) { asio::write(theirs, asio::buffer("abcd", 4)); });
          error_code error;
          char buffer[4];
          const std::size_t bytes = asio::async_read(ours, asio::buffer(buffer), use_fiber(120us)[error]);
          EXPECT_TRUE(error ? error == asio::error::timed_out : bytes == 4) << error.message() << ' ' << bytes;
          ++(error ? late : in_time);
          // The timer's handler uses `theirs`.
          if (error) asio::async_read(ours, asio::buffer(buffer, 4 - bytes), use_fiber);
        }
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
  EXPECT_EQ(in_time + late, kFibers * kRounds);
}

TEST_P(UseFiberTest, FibersTalkOverTcp) {
  constexpr int kClients = 20;
  constexpr int kMessages = 10;
  asio::ip::tcp::acceptor acceptor(io_, {asio::ip::address_v4::loopback(), 0});
  FiberLatch all_served(kClients);
  Fiber server([&] {
    for (int i = 0; i < kClients; ++i) {
      Fiber([&all_served, socket = acceptor.async_accept(use_fiber)]() mutable {
        std::string line;
        error_code error;
        for (;;) {
          const std::size_t bytes = asio::async_read_until(socket, asio::dynamic_buffer(line), '\n', use_fiber[error]);
          if (error) break;
          asio::async_write(socket, asio::buffer(line.data(), bytes), use_fiber);
          line.erase(0, bytes);
        }
        EXPECT_EQ(error, asio::error::eof);
        socket.close();
        all_served.CountDown();
      }).Detach();
    }
  });
  FiberLatch all_done(kClients);
  for (int i = 0; i < kClients; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      std::optional<asio::ip::tcp::socket> owned(std::in_place, io_);  // Is gone before the io_context is.
      asio::ip::tcp::socket& socket = *owned;
      socket.async_connect(acceptor.local_endpoint(), use_fiber(30s));
      for (int k = 0; k < kMessages; ++k) {
        const std::string asked = std::to_string(i) + '-' + std::to_string(k) + '\n';
        asio::async_write(socket, asio::buffer(asked), use_fiber);
        std::string answer;
        asio::async_read_until(socket, asio::dynamic_buffer(answer), '\n', use_fiber(30s));
        EXPECT_EQ(answer, asked);
      }
      owned.reset();
      all_done.CountDown();
    }));
  }
  all_done.Wait();
  server.Join();
  all_served.Wait();
}

}  // namespace
}  // namespace weft::interop
