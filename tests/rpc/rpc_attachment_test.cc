// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Attachments: bytes beside a call's messages.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/tests/rpc/rpc_fixture.h"

namespace weft::rpc {
namespace {

class RpcAttachmentTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, RpcAttachmentTest, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}),
                         &fiber::NameOf);

std::string Bytes(std::size_t size, std::uint64_t seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + (seed + i * 7 + i / 251) % 26);
  return bytes;
}

// The same bytes in blocks of at most `block`.
NoncontiguousBuffer InBlocks(const std::string& bytes, std::size_t block) {
  NoncontiguousBuffer buffer;
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    buffer.Append(NoncontiguousBuffer(std::string_view(bytes).substr(at, block)));
  }
  return buffer;
}

TEST_P(RpcAttachmentTest, TheyComeBackWholeBesideTheMessage) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address());
    std::vector<Fiber> callers;
    for (std::size_t f = 0; f < 8; ++f) {
      callers.emplace_back([&, f] {
        Controller controller;
        for (const std::size_t size : {0, 1, 511, 512, 5'000, 65'536, 70'000, 300'000, 1'000'000}) {
          const std::string bytes = Bytes(size, f);
          // Some in more blocks than a system call takes.
          controller.request_attachment() = InBlocks(bytes, f % 2 == 0 ? size / 200 + 1 : size + 1);
          const std::string payload = "message " + std::to_string(f);
          EXPECT_EQ(client.Echo(&controller, payload), payload) << controller.ErrorText();
          ASSERT_TRUE(controller.answer_attachment().Get() == std::string_view(bytes)) << size;
        }
      });
    }
    for (Fiber& caller : callers) caller.Join();
  });
}

TEST_P(RpcAttachmentTest, AnAttachmentThatIsKeptStaysAsItCame) {
  InFiber([] {
    std::vector<NoncontiguousBuffer> kept;
    ScriptedService service([&](Controller* controller, const EchoRequest*, EchoAnswer*, Closure* done) {
      kept.push_back(controller->request_attachment().Take());
      done->Run();
    });
    RunningServer server(&service);
    {
      Client client(server->local_address());
      for (std::uint64_t i = 0; i < 100; ++i) {
        Controller controller;
        controller.request_attachment() = NoncontiguousBuffer(Bytes(400 + i * 10, i));
        client.Echo(&controller, "x");
        EXPECT_EQ(controller.error_code(), OK) << controller.ErrorText();
      }
    }
    server->Stop(kSoon);
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(kept[i].ToString(), Bytes(400 + i * 10, i));
  });
}

TEST_P(RpcAttachmentTest, MessageAndAttachmentTogetherMustBeWithinTheLimit) {
  InFiber([] {
    ScriptedService service([](Controller* controller, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      answer->set_payload(request->payload());
      NoncontiguousBuffer twice = controller->request_attachment().Get();
      twice.Append(controller->request_attachment().Take());
      controller->answer_attachment() = std::move(twice);
      done->Run();
    });
    RunningServer server(&service, {.limits = {.max_body = 1'000}});
    Client client(server->local_address(), {.limits = {.max_body = 1'000}});
    const auto code_of = [&](std::size_t message, std::size_t attachment) {
      Controller controller;
      controller.request_attachment() = NoncontiguousBuffer(Bytes(attachment, 1));
      client.Echo(&controller, std::string(message, 'x'));
      EXPECT_EQ(controller.answer_attachment().ByteSize(), controller.Failed() ? 0 : 2 * attachment);
      return controller.error_code();
    };
    EXPECT_EQ(code_of(600, 600), TOO_LARGE);  // the request
    EXPECT_EQ(code_of(100, 600), TOO_LARGE);  // the answer
    EXPECT_EQ(code_of(100, 400), OK);
    EXPECT_EQ(client.channel().counts().connects, 1u);
  });
}

TEST_P(RpcAttachmentTest, ACallThatIsMadeAgainHasItsAttachmentAgain) {
  InFiber([] {
    RawServer server;
    Client client(server.address(), {.retry = {.most_attempts = 4, .pause_least = 1ms}});
    Controller controller;
    controller.request_attachment() = NoncontiguousBuffer(Bytes(1'000, 3));
    Fiber caller([&] { EXPECT_EQ(client.Echo(&controller, "x"), "x") << controller.ErrorText(); });
    RawClient peer(server.Accept());
    for (const bool refuses : {true, true, false}) {
      Frame frame;
      ASSERT_TRUE(peer.ReceiveAny(&frame));
      RequestMeta request;
      ASSERT_TRUE(request.ParseFromArray(frame.meta.data(), static_cast<int>(frame.meta.size())));
      Attachment attachment = frame.CutAttachment(request.attachment_size());
      EXPECT_EQ(attachment.Get().ToString(), Bytes(1'000, 3));
      AnswerMeta meta;
      EchoAnswer answer;
      if (refuses) {
        meta.set_error_code(UNAVAILABLE);
        meta.set_not_begun(true);
      } else {
        meta.set_attachment_size(1'000);
        answer.set_payload("x");
      }
      peer.Send(BytesOf(MakeFrame(FrameKind::kAnswer, frame.header.correlation_id, &meta, refuses ? nullptr : &answer,
                                  refuses ? Attachment() : std::move(attachment))));
    }
    caller.Join();
    EXPECT_EQ(client.channel().counts().retries, 2u);
    EXPECT_EQ(controller.answer_attachment().Get().ToString(), Bytes(1'000, 3));
  });
}

TEST_P(RpcAttachmentTest, ACallBeginsWithoutTheAttachmentOfTheLastAnswer) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address());
    Controller controller;
    controller.request_attachment() = NoncontiguousBuffer("attached");
    client.Echo(&controller, "x");
    EXPECT_EQ(controller.answer_attachment().Get().ToString(), "attached");
    client.Echo(&controller, "x");
    EXPECT_EQ(controller.answer_attachment().Get().ToString(), "attached") << "the request's stays set";
    controller.request_attachment().Clear();
    client.Echo(&controller, "x");
    EXPECT_TRUE(controller.answer_attachment().Empty());
    controller.request_attachment() = NoncontiguousBuffer("attached");
    client.Echo(&controller, "x");
    controller.Reset();
    EXPECT_TRUE(controller.request_attachment().Empty());
    EXPECT_TRUE(controller.answer_attachment().Empty());
  });
}

TEST_P(RpcAttachmentTest, AnAttachmentLargerThanItsFrameIsRefused) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    RawClient client(server->local_address());
    RequestMeta request;
    request.set_service("weft.rpc.EchoService");
    request.set_method("Echo");
    request.set_attachment_size(3);
    const auto code_of = [&](std::size_t bytes) {
      client.Send(BytesOf(MakeFrame(FrameKind::kRequest, 1, &request, nullptr, NoncontiguousBuffer(Bytes(bytes, 1)))));
      Frame frame;
      AnswerMeta meta;
      EXPECT_TRUE(client.Receive(&frame, &meta));
      return meta.error_code();
    };
    EXPECT_EQ(code_of(2), BAD_REQUEST);
    EXPECT_EQ(code_of(3), OK);
    EXPECT_EQ(server->counts().bad, 1u);

    RawServer raw;
    Client caller(raw.address());
    Controller controller;
    Fiber calling([&] { caller.Echo(&controller, "x"); });
    RawClient peer(raw.Accept());
    Frame frame;
    ASSERT_TRUE(peer.ReceiveAny(&frame));
    AnswerMeta answer;
    answer.set_attachment_size(1);
    peer.Send(BytesOf(MakeFrame(FrameKind::kAnswer, frame.header.correlation_id, &answer, nullptr)));
    calling.Join();
    EXPECT_EQ(controller.error_code(), BAD_ANSWER);
  });
}

TEST(FrameAttachmentTest, AttachmentsShareTheBlockUnlessTheyAreShort) {
  for (const std::size_t size :
       {std::size_t{0}, NoncontiguousBuffer::kCopyBelow - 1, NoncontiguousBuffer::kCopyBelow}) {
    FrameReader reader({});
    const std::string bytes =
        BytesOf(MakeFrame(FrameKind::kAnswer, 1, nullptr, nullptr, NoncontiguousBuffer(Bytes(size + 5, 2))));
    bytes.copy(reader.Room().data(), bytes.size());
    reader.Filled(bytes.size());
    Frame frame;
    ASSERT_EQ(reader.Next(&frame), FrameReader::Result::kFrame);
    const char* const place = frame.body.data() + 5;
    const NoncontiguousBuffer attachment = frame.CutAttachment(size).Take();
    EXPECT_EQ(frame.body, Bytes(size + 5, 2).substr(0, 5));
    EXPECT_EQ(attachment.ToString(), Bytes(size + 5, 2).substr(5));
    frame = Frame();
    // FR1: the reader writes to the block again only if nobody has it.
    EXPECT_EQ(reader.Room().data() > place, size >= NoncontiguousBuffer::kCopyBelow);
    if (size >= NoncontiguousBuffer::kCopyBelow) {
      EXPECT_EQ(attachment.FirstContiguous().data(), place);
    }
  }
}

}  // namespace
}  // namespace weft::rpc
