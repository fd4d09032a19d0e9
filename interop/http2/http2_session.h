// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Session: an HTTP/2 connection: nghttp2's session between a byte stream and the fibers that use its streams. What
// servers and clients have in common; Http2ServerConnection and Http2ClientConnection derive from it. Http2Stream: one
// of its streams.
//
// How it works. nghttp2 never waits: it turns bytes into callbacks, and what was submitted into bytes. One mutex guards
// it. What has to wait waits without the mutex:
//
//     reader    Run(): transport -> nghttp2_session_mem_recv() -> callbacks: bytes to `in`, marks, wake-ups
//     users     Read() takes from `in` and gives the window back; Write() puts into `out`, and parks while that is full
//     writer    Flush(): nghttp2_session_mem_send() -> flight_ -> transport. Whoever has made a frame and finds no
//               writer becomes it (H2S2)
//
// A writer that has borrowed a user's fiber first lets the ready fibers run, if there are other streams, so that their
// frames come along; it never waits for the kernel. What the kernel does not take at once, and what came meanwhile, is
// written by a fiber that is started for it. (So a handler's cancellation or deadline harms no other's frames.)
//
// Invariants
//   H2S1  nghttp2's session, the streams and the marks are touched under mutex_ only, and mutex_ is never held over a
//         wait for the peer. nghttp2's callbacks copy, mark and wake; they call no user's code but the deleters of
//         blocks (http2_server.h), and nothing of nghttp2 that would call back.
//   H2S2  While writing_ is set, flight_ belongs to the writer alone. It is cleared in the hold of mutex_ in which
//         nghttp2 had nothing to send: a frame that is made later finds no writer, and its maker becomes it.
//   H2S3  A stream whose data callback found nothing (`deferred`) is resumed in the hold of mutex_ in which bytes or
//         the end come into `out`. Only a closed stream stays deferred.
//   H2S4  Each byte of a body that has come is given back to the connection's window once: when it is read, when its
//         stream is closed or its handler has returned, or at once if it comes after that.
//   H2S5  No user waits for a stream that has ended. Whatever closes it sets `closed` and notifies in one hold. After
//         ended_ every stream is closed, and none begins.
//   H2S6  A stream is in streams_, which holds a reference, until nghttp2 has forgotten it (`gone`) or is deleted: its
//         pointer in nghttp2 is good. A handle of a user holds a reference of its own. So long it keeps `out`: nghttp2
//         may have written the head of a DATA frame whose bytes are still there.
//   H2S7  A write ends by write_timeout, counted from its beginning. When the connection ends because of an error, the
//         writer has kGoodbye for the GOAWAY, then the transport is shut down, which ends it. (nghttp2 tells of a
//         protocol error with its GOAWAY only: while a writer is stuck, handlers live until the write's time-out.)
//   H2S8  What waits to be sent is bounded: bodies by send_buffer a stream, flight_ by kFlight and a frame. A server's
//         other frames: by max_queued_frames and three a stream (the reader looks before it reads on), and by what one
//         read can cause. A client's: by the calls that the server allows, and by nghttp2's limit of answers.
//   H2S9  Nothing outlives Run(): it returns when the writer has ended, whose last touch is its unlock of mutex_.
//   H2S10 The reader's wait ends when the connection is over, whoever finds that out: over_ is set and read_scope_ is
//         cancelled in one hold. Writers look after each write: the last answer after a GOAWAY may be theirs.
//   H2S11 When nothing has come for kKeepRoomFor, the reader, whose alone it is, gives read_room_ back until something
//         comes; and, under mutex_, a flight_ that no writer has, and the pages of frame_room_ if nghttp2 has nothing
//         to send then. The latter two also each time when it looks whether it can leave.
//   H2S12 A client whose write has failed reads what has come by then, so that no answer is lost with it: a server that
//         has said goodbye and closed resets who writes on. The transport is shut down: so the reader finds those
//         bytes, then the end, and later ones are refused. A server's handlers are cancelled at once.
//   H2S13 While MayPing(), a peer that has sent nothing for ping_after gets one PING. If nothing comes for as long
//         again, the connection ends. Any bytes end the silence. A client's reader wakes up each ping_after, since
//         calls begin in other fibers; what it finds while no PING may be sent is no silence.
//   H2S14 Run(kMayLeave) leaves a session that is nobody's: it is not over, has no stream, handler or writer, and hence
//         nothing to send (H2S2); it has seen no drain, and the peer owes it nothing within a time limit. So nobody
//         makes a frame or ends it. When the fibers of its handlers have ended (H2V1), nobody touches it but the next
//         Run() or the destructor: so its memory sleeps (http2_frame_room.h). The TcpServer arms a watch next: the
//         watch finds what has come meanwhile, and a drain that the session has not seen ends the watch, or keeps it
//         from being armed (io/tcp_server.h).
//   H2S15 Work that a peer makes and nobody asked for has limits, and beyond one the connection ends as kFlooded:
//         a header section by kMostSections times max_header_list, as it is decoded and as it comes, also the fields
//         that nghttp2 refuses; requests that end without an answer, and sections that are too large or no answer, by
//         in_vain_; frames without content by empty_, in which what does carry something gives room back.
//   H2S16 A HEADERS frame for a stream of a smaller number that nghttp2 does not know ends a server's connection
//         (RFC 9113, 5.1.1). Not if it may be trailers whose sender did not know yet that the stream had gone: of a
//         stream that we have reset before its end (resets_), or that a GOAWAY has left out.
// Rejected: a writer fiber for each connection (two switches more for each answer of a connection with one stream).
#ifndef WEFT_INTEROP_HTTP2_HTTP2_SESSION_H_
#define WEFT_INTEROP_HTTP2_HTTP2_SESSION_H_

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/base/fiber_clock.h"
#include "weft/base/memory/intrusive_list.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/base/ref_ptr.h"
#include "weft/interop/http2/http2_flood.h"
#include "weft/interop/http2/http2_frame_room.h"
#include "weft/interop/http2_headers.h"
#include "weft/interop/http2_options.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/io_result.h"
#include "weft/net/budgets.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::interop {

// One request and its answer, of a server or of a client: what has come, what is to be sent, what has ended.
// Http2Session writes it; all of it is guarded by the session's mutex.
//
// Two ends, each seen by both sides of the code:
//
//     to us      end_received   the peer's END_STREAM has come
//     from us    end_wanted     the last byte and the trailers are in `out`
//                end_sent       our END_STREAM is on its way
//     both       closed         users get nothing more than what is in `in`, and its end if that has come; `error` says
//                               why, if the stream ended before both ends
//                gone           nghttp2 has forgotten it
struct Http2Stream : base::RefCounted<Http2Stream> {
  static constexpr std::size_t kKeptIn = 16'384;

  std::int32_t id = 0;

  // --- What has come ---
  Http2Headers fields;  // with those that begin with a colon
  Http2Headers trailers;
  bool has_fields = false;  // complete; of an answer: those of its final status
  bool too_large = false;   // more fields have come than may
  bool is_grpc = false;     // says a field that has come after those
  std::string in;           // of the body: what was not read
  std::size_t in_begin = 0;
  bool end_received = false;
  io::RequestBudget* bodies = nullptr;  // a server's: has unread() bytes of it (H2V7)

  // --- What is to be sent ---
  bool has_sent_fields = false;  // given to nghttp2
  bool has_no_body = false;      // the fields' frame ends the stream; a body is dropped
  NoncontiguousBuffer out;       // of the body: what nghttp2 has not taken
  Http2Headers out_trailers;
  bool end_wanted = false;
  bool deferred = false;  // nghttp2 waits for nghttp2_session_resume_data()
  bool end_sent = false;

  bool closed = false;
  bool gone = false;
  std::error_code error;
  std::uint32_t reset_code = 0;  // of RST_STREAM, if `error` is kStreamReset

  bool ends_on_goaway = false;  // a client's

  // A server's.
  Deadline::TimePoint begun_at;  // when its fields have come
  CancelScope scope;             // around the handler
  bool drops_body = false;       // its handler has returned: what still comes is given back at once
  bool io_failed = false;        // a Read() or a Write(): what was sent does not end as if it were all

  FiberConditionVariable changed;  // fields, bytes or an end have come; there is room in `out`; closed
  base::ListHook hook;

  ~Http2Stream() { SkipIn(unread()); }

  std::size_t unread() const noexcept { return in.size() - in_begin; }
  // Drops what has been read when it is no less than the rest: `in` is at most twice as long as what may be unread, and
  // a byte moves once on average. False: `bodies` has no room.
  [[nodiscard]] bool PutIn(std::string_view bytes) {
    if (bodies != nullptr && !bodies->TakeBytes(bytes.size())) return false;
    if (in_begin >= unread()) {
      in.erase(0, in_begin);
      in_begin = 0;
    }
    in.append(bytes);
    return true;
  }
  // Drops the first unread bytes, and gives them back to `bodies`.
  void SkipIn(std::size_t bytes) {
    if (bodies != nullptr) bodies->GiveBackBytes(bytes);
    in_begin += bytes;
    if (unread() != 0) return;
    // A frame's memory is kept for the next one.
    if (in.capacity() > kKeptIn) std::string().swap(in);
    in.clear();
    in_begin = 0;
  }
  std::size_t unsent() const noexcept { return out.ByteSize(); }
  // The first `size` bytes of `out`, to the end of *to. Blocks go as soon as they have been copied.
  void TakeOut(std::size_t size, std::string* to) {
    while (size != 0) {
      const std::string_view bytes = out.FirstContiguous().substr(0, size);
      to->append(bytes);
      size -= bytes.size();
      out.Skip(bytes.size());
    }
  }
};

class Http2Session {
 public:
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // --- For users of a stream. Any fiber or thread that holds a reference; cancellation ends a wait as in io/. ---
  // Bytes of the body that has come. 0 without an error: it has ended.
  io::IoResult Read(Http2Stream& stream, void* data, std::size_t size, Deadline deadline);
  // Returns when all is in `out`.
  io::IoResult Write(Http2Stream& stream, const void* data, std::size_t size, Deadline deadline);
  // `out` shares the blocks.
  io::IoResult Write(Http2Stream& stream, const NoncontiguousBuffer& body, Deadline deadline);
  std::error_code End(Http2Stream& stream, const Http2Headers& trailers);  // the body is complete

 protected:
  using Lock = std::unique_lock<FiberMutex>;
  using Streams = base::IntrusiveList<Http2Stream, &Http2Stream::hook>;
  enum class Side { kServer, kClient };

  // Keeps a reference to the options.
  Http2Session(Side side, const Http2Transport& transport, const Http2Options& options);
  ~Http2Session();

  // --- What the sides do differently. Under mutex_. From OnBegin() to OnPingAnswer(): in callbacks (H2S1). ---
  // The peer begins a stream. None: it is refused.
  virtual base::RefPtr<Http2Stream> OnBegin() = 0;
  virtual void OnRefused() {}             // nghttp2 has refused a stream itself
  virtual void OnFields(Http2Stream&) {}  // complete
  // By the peer, or by nghttp2 because the peer has broken the rules of a stream; before it is closed.
  virtual void OnReset(Http2Stream&) {}
  virtual void OnEndSent(Http2Stream&) {}
  virtual void OnClosed(Http2Stream&) {}  // for users; once
  virtual void OnGone(Http2Stream&) {}    // for nghttp2; once
  virtual void OnGoAway() {}
  virtual void OnGoAwaySent() {}
  virtual void OnSettings() {}
  virtual void OnPingAnswer(std::uint64_t number) = 0;
  // A silent peer is asked whether it is there (H2S13), by a PING of this number.
  virtual bool MayPing() const = 0;
  virtual std::uint64_t NextPing() = 0;
  virtual void AfterReceive(Lock&) {}  // after each read, when nghttp2 has taken it
  virtual void OnProgress() {}         // fields or a body went out
  // When the reader wakes up at the latest, and what it looks after then.
  virtual Deadline NextTick() const { return {}; }
  virtual void OnTick() {}
  virtual void OnDrain() {}  // the server of the connection drains; once
  virtual void OnEnded() {}
  virtual bool IsIdle() const = 0;
  virtual bool OthersMayWrite() const = 0;  // other fibers are likely to make frames at the same time

  enum class Stay : bool { kUntilOver, kMayLeave };
  // One of http2_options.h, or of the server of the connection (kIdle), that has ended Run().
  enum class TimeUp { kNone, kIdle, kWrite, kSettings, kPing };

  // The reader. Returns when the connection is over, why, and all streams are closed (H2S9). Or, if it may, when the
  // session may wait without a reader (H2S14): has_left(), and a further call goes on.
  std::error_code Run(Stay stay);
  bool has_left() const { return has_left_; }
  // Before a Run() that is to end a session that has been left: it drains, if the server does, or has been idle.
  void EndWait();
  bool over() const { return over_; }
  // Nothing is sent any more, or soon will be.
  bool is_closing() const { return over_ || failed_; }
  TimeUp time_up() const { return time_up_; }  // after Run()

  // Under the lock; may release it meanwhile. Never waits for the peer.
  void Flush(Lock& lock);
  // Checks, and gives to nghttp2. `body`: DATA follows.
  std::error_code SubmitFields(Http2Stream& stream, std::span<const Http2Field> first, const Http2Headers& rest,
                               bool body);
  // Bytes and the end into `out`; the caller flushes.
  void PutOut(Http2Stream& stream, std::string_view bytes);
  std::error_code PutEnd(Http2Stream& stream, const Http2Headers& trailers);
  void SubmitReset(Http2Stream& stream, std::uint32_t code, std::error_code error);
  // For users. `error`: if it is not complete.
  void Close(Http2Stream& stream, std::error_code error);
  // Into streams_, and out of it when nghttp2 has forgotten it (H2S6).
  void Enter(Http2Stream& stream);
  void Leave(Http2Stream& stream, std::error_code error);
  std::size_t TakeIn(Http2Stream& stream, void* data, std::size_t size);  // from `in`; the caller flushes
  std::size_t RoomIn(const Http2Stream& stream) const;
  void DropUnread(Http2Stream& stream);  // of a stream whose user has gone
  void SubmitPing(std::uint64_t number);
  // Ends Run(), with a GOAWAY that says why. `error`: what streams are closed with (CloseAll()); none: there is
  // nothing wrong.
  void Terminate(std::uint32_t code, std::error_code error, TimeUp time_up = TimeUp::kNone);
  // Until a notification, the deadline, or the caller's cancellation.
  static std::error_code Wait(Lock& lock, FiberConditionVariable& condition, Deadline deadline);
  Deadline OwnOr(Deadline deadline) const;
  // Work that was in vain (H2S15). In callbacks, too.
  void CountInVain() {
    if (!in_vain_.Take(1)) flooded_ = true;
  }
  void CountAnswered(double room = 1) { in_vain_.GiveBack(room); }
  Deadline::TimePoint ReadAt() {  // of what is being received
    if (read_at_ == Deadline::TimePoint()) read_at_ = FiberClock::now();
    return read_at_;
  }
  void LeaveStreamsOut() { leaves_streams_out_ = true; }  // A GOAWAY of ours does (H2S16).

  FiberMutex mutex_;
  const Side side_;
  const Http2Options& options_;  // its owner's
  const Http2Transport transport_;
  Http2FrameRoom frame_room_;
  nghttp2_session* session_ = nullptr;
  Streams streams_;
  bool ended_ = false;  // all streams are closed, and none begins any more

 private:
  struct Callbacks;  // http2_callbacks.cc

  static constexpr std::size_t kReadSize = 16'384 + 9;  // of a read: a frame of the usual largest size
  // How long the reader keeps read_room_ while nothing comes (bench/results/idle-connections.md). Longer than a
  // busy client's pauses: afterwards a request costs an allocation, a TlsStream's buffers and page faults more.
  static constexpr std::chrono::milliseconds kKeepRoomFor{100};
  // A reader that cannot leave yet, because a handler runs say, looks again and again whether it can, each time after
  // twice as long, but no longer than this. After a handler that ran for so long it leaves within that time again.
  static constexpr std::chrono::milliseconds kLongestLook{10'000};
  // Of a write; a frame more may be in it. As much as a socket's buffer usually takes at once.
  static constexpr std::size_t kFlight = 65'536;
  // As Http2Headers::bytes() counts. nghttp2 drops a longer section: it counts 12 bytes a field and 17 for all.
  // Of max_header_list: a client that sends a few large cookies too many is told so, by 431. HPACK names a field of
  // thousands of bytes by one byte, so a section may decode to hundreds of times its size.
  static constexpr std::size_t kMostSections = 8;
  // What a frame with content gives back of empty_: the receiver of DATA answers it with two window updates, and
  // perhaps a PING that measures; a request may have a priority, a window update, an empty end and a reset.
  static constexpr double kForDataSent = 3, kForDataCome = 1, kForSection = 4;
  // For a GOAWAY after an error, and for the peer's last bytes before the close.
  static constexpr std::chrono::seconds kGoodbye{1};
  // How often a server whose idle time-out has passed under running streams looks for a drain.
  static constexpr std::chrono::milliseconds kDrainLook{100};

  void ReadLoop(Lock& lock);
  // Into read_room_, which it gives back and takes (H2S11). Without mutex_.
  io::IoResult ReadNext(Deadline deadline, bool request);
  // Until there is something to read, or it has left: then has_left().
  std::error_code AwaitOrLeave(Deadline deadline, bool request);
  bool CanLeave() const;           // H2S14
  std::error_code TakeReadRoom();  // not_enough_memory
  void GiveMemoryBack();
  // What a read without bytes says.
  void OnNothing(const io::IoResult& got, bool request, Deadline deadline);
  void Receive(const char* data, std::size_t size);
  // More bytes of the header section that is coming; `counted`: in frames_of_section_ or fields_of_section_. False: it
  // is a flood (H2S15).
  [[nodiscard]] bool CountSection(std::size_t* counted, std::size_t bytes) {
    *counted += bytes;
    flooded_ = flooded_ || *counted > kMostSections * options_.max_header_list;
    return !flooded_;
  }
  void CountEmpty(double frames) {
    if (!empty_.Take(frames)) flooded_ = true;
  }
  // A stream that nghttp2 does not know. False: the peer breaks HTTP/2 (H2S16).
  [[nodiscard]] bool MayBegin(std::int32_t id);
  // Of the peer, and of its silence (H2S13).
  void Heard();
  void LookForSilence();
  // With those of streams that do as they should: an answer's fields, a window update, a reset.
  std::size_t MaxQueuedFrames() const {
    return options_.max_queued_frames + std::size_t{3} * options_.max_concurrent_streams;
  }
  void Drain();
  // Any fiber or thread: wakes the reader, and Run() ends.
  void EndWith(std::error_code error, TimeUp time_up = TimeUp::kNone);
  void EndIfDone();  // after something was sent: nothing that comes matters any more
  void FinishWriting(Lock& lock);
  void SayGoodbye();

  void WriteAll(Lock& lock, bool borrowed);
  void LetOthersCome(Lock& lock);
  bool WriteFlight(Lock& lock, bool borrowed);  // false: the kernel takes no more now
  void Gather();
  void HandOff(Lock& lock);
  void Fail(std::error_code error, TimeUp time_up = TimeUp::kNone);
  // put_out(begin, size) puts a piece into `out`.
  template <class Put>
  io::IoResult WritePieces(Http2Stream& stream, std::size_t size, Deadline deadline, const Put& put_out);
  void OpenWindow();
  void Resume(Http2Stream& stream);
  void GiveBack(Http2Stream& stream, std::size_t bytes);
  static std::error_code WhyNotWritable(const Http2Stream& stream);
  // With `error`, but for a client's requests that wait for the writer: kNotBegun.
  void CloseAll(std::error_code error);
  bool TakeBack(Http2Stream& stream);  // false: something of it may have been sent

  FiberConditionVariable written_;  // writing_ was cleared
  bool writing_ = false;
  bool failed_ = false;          // the transport; nothing more is sent
  std::error_code write_error_;  // why
  std::string flight_;
  std::size_t flight_sent_ = 0;

  bool settings_in_flight_ = false;
  Deadline settings_until_;
  bool has_progressed_ = false;  // fields or a body are in flight_
  Deadline ping_at_;
  bool pinged_ = false;  // nothing has come since the ping

  // H2S15, H2S16
  Http2Allowance in_vain_;
  Http2Allowance empty_;
  Http2EmptyFrames empty_frames_;
  std::size_t frames_of_section_ = 0;  // as it comes
  std::size_t fields_of_section_ = 0;  // as it is decoded
  bool flooded_ = false;
  Http2Resets resets_;
  std::int32_t last_begun_ = 0;
  Deadline::TimePoint read_at_;
  bool leaves_streams_out_ = false;

  // The reader's, and of whoever ends it.
  CancelScope* read_scope_ = nullptr;  // around its reads; while it runs
  std::unique_ptr<char[]> read_room_;  // the reader's; none while it waits for long
  bool over_ = false;
  std::error_code why_;
  TimeUp time_up_ = TimeUp::kNone;
  bool peer_reads_ = true;  // as far as we know: a good-bye may reach it
  bool has_drained_ = false;
  bool may_leave_ = false;
  bool has_left_ = false;
  std::chrono::milliseconds next_look_ = kKeepRoomFor;  // the reader's
  bool looks_for_drain_ = false;  // request time-outs of the server have passed under running streams
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_SESSION_H_
