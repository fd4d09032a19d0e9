// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// gRPC's own client asks in grpc_python_test.py.

#include "weft/interop/http2_grpc_reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/interop/grpc/protobuf_fields.h"
#include "weft/interop/http2_client.h"
#include "weft/tests/interop/http2_grpc_fixture.h"

namespace weft::interop {
namespace {

using io::Soon;

constexpr std::string_view kPath = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

std::string Bytes(std::uint64_t number, std::string_view bytes) {
  std::string field;
  AppendBytes(&field, number, bytes);
  return field;
}
std::string Number(std::uint64_t number, std::uint64_t value) {
  std::string field;
  AppendNumber(&field, number, value);
  return field;
}
std::string FileByName(std::string_view name) { return Bytes(3, name); }
std::string FileOfSymbol(std::string_view name) { return Bytes(4, name); }
std::string FileOfExtension(std::string_view type, std::uint64_t number) {
  return Bytes(5, Bytes(1, type) + Number(2, number));
}
std::string ExtensionsOf(std::string_view type) { return Bytes(6, type); }
std::string Services() { return Bytes(7, "*"); }
std::string Error(GrpcCode code, std::string_view message) {
  return Bytes(7, Number(1, static_cast<std::uint64_t>(code)) + Bytes(2, message));
}

// The last one imports the first by two ways.
constexpr const char* kFiles[] = {
    R"(name: "t/base.proto" package: "t" syntax: "proto2"
       message_type { name: "Base" extension_range { start: 100 end: 1000 } })",
    R"(name: "t/more.proto" package: "t" syntax: "proto2" dependency: "t/base.proto"
       extension { name: "more" extendee: ".t.Base" number: 300 label: LABEL_OPTIONAL type: TYPE_INT32 }
       extension { name: "less" extendee: ".t.Base" number: 101 label: LABEL_OPTIONAL type: TYPE_INT32 })",
    R"(name: "t/service.proto" package: "t" syntax: "proto2" dependency: "t/base.proto" dependency: "t/more.proto"
       service { name: "Known" method { name: "Ask" input_type: ".t.Base" output_type: ".t.Base" } })"};

class Http2GrpcReflectionTest : public io::IoTest {
 protected:
  struct Ends {
    Ends() : reflection(&pool), served(service.handler()), client(Http2Transport(served.client())) {
      for (const char* text : kFiles) {
        google::protobuf::FileDescriptorProto file;
        EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &file));
        EXPECT_NE(pool.BuildFile(file), nullptr);
      }
      EXPECT_TRUE(client.Start());
      const auto nothing = [](GrpcCall&) { return GrpcStatus(); };
      for (const char* path : {"/t.Known/Ask", "/t.Known/Tell", "/t.Unknown/Ask", "", "/", "/t", "t.Odd/Ask"}) {
        service.Add(path, nothing);
      }
      reflection.AddTo(&service);
    }

    // The status, and the one answer behind what each begins with.
    std::string Ask(const std::string& request, std::string_view version = "v1") {
      std::string path("/grpc.reflection.");
      path.append(version).append(".ServerReflection/ServerReflectionInfo");
      const Http2Answer answer = client.Ask(GrpcHead(path), MessageOf(request), Soon());
      EXPECT_FALSE(answer.error) << answer.error.message();
      const std::string status(GrpcEndOf(answer).Find("grpc-status"));
      if (answer.body.empty()) return status;
      const std::string begin = Bytes(2, request);
      const std::string message = answer.body.substr(5);
      EXPECT_EQ(answer.body.substr(0, 5), MessageOf(message).substr(0, 5)) << "one message";
      EXPECT_EQ(message.substr(0, begin.size()), begin);
      return status + message.substr(begin.size());
    }

    // Of an answer with files: their names.
    static std::vector<std::string> Names(const std::string& answer) {
      std::vector<std::string> names;
      EXPECT_EQ(answer.substr(0, 1), "0");
      ProtobufFields fields(std::string_view(answer).substr(1));
      EXPECT_TRUE(fields.Next());
      EXPECT_EQ(fields.tag(), BytesTag(4));
      for (ProtobufFields files(fields.bytes()); files.Next();) {
        google::protobuf::FileDescriptorProto file;
        EXPECT_EQ(files.tag(), BytesTag(1));
        EXPECT_TRUE(file.ParseFromString(std::string(files.bytes())));
        names.push_back(file.name());
      }
      EXPECT_FALSE(fields.Next());
      return names;
    }

    google::protobuf::DescriptorPool pool;
    Http2GrpcService service;
    Http2GrpcReflection reflection;
    ServedConnection served;
    Http2Client client;
  };
  using Strings = std::vector<std::string>;
};
WEFT_INSTANTIATE_IO_SHAPES(Http2GrpcReflectionTest);

TEST_P(Http2GrpcReflectionTest, ListsTheServicesThatItCanDescribeUnderBothNames) {
  InFiber([] {
    Ends ends;
    const std::string known = Bytes(6, Bytes(1, Bytes(1, "t.Known")));
    EXPECT_EQ(ends.Ask(Services()), "0" + known);
    EXPECT_EQ(ends.Ask(Services(), "v1alpha"), "0" + known);
  });
}

TEST_P(Http2GrpcReflectionTest, AServiceIsListedOnceAndPathsThatAreNoneAreNot) {
  InFiber([] {
    Ends ends;
    EXPECT_EQ(ends.service.services(),
              (std::set<std::string>{"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
                                     "t.Known", "t.Unknown"}));
  });
}

TEST_P(Http2GrpcReflectionTest, AFileComesOnceWithAllThatItImports) {
  InFiber([] {
    Ends ends;
    const Strings all{"t/service.proto", "t/more.proto", "t/base.proto"};
    EXPECT_EQ(ends.Names(ends.Ask(FileByName("t/service.proto"))), all);
    EXPECT_EQ(ends.Names(ends.Ask(FileOfSymbol("t.Known"))), all);
    EXPECT_EQ(ends.Names(ends.Ask(FileOfSymbol("t.Known.Ask"))), all);
    EXPECT_EQ(ends.Names(ends.Ask(FileOfSymbol("t.Base"))), Strings{"t/base.proto"});
    EXPECT_EQ(ends.Names(ends.Ask(FileOfExtension("t.Base", 300))), (Strings{"t/more.proto", "t/base.proto"}));
  });
}

TEST_P(Http2GrpcReflectionTest, ExtensionsOfAMessageAreNumbered) {
  InFiber([] {
    Ends ends;
    const std::string answer = ends.Ask(ExtensionsOf("t.Base"));
    const auto numbers = [](std::string first, const std::string& second) {
      return "0" + Bytes(5, Bytes(1, "t.Base") + Bytes(2, first + second));
    };
    const std::string less("\x65", 1), more("\xac\x02", 2);  // 101, 300
    EXPECT_TRUE(answer == numbers(less, more) || answer == numbers(more, less)) << answer;
    EXPECT_EQ(ends.Ask(ExtensionsOf("t.Nothing")), "0" + Error(GrpcCode::kNotFound, "no message t.Nothing"));
  });
}

TEST_P(Http2GrpcReflectionTest, WhatIsNotThereIsAnErrorAndTheStreamGoesOn) {
  InFiber([] {
    Ends ends;
    EXPECT_EQ(ends.Ask(FileByName("x.proto")), "0" + Error(GrpcCode::kNotFound, "no file x.proto"));
    EXPECT_EQ(ends.Ask(FileOfSymbol("t.Unknown")), "0" + Error(GrpcCode::kNotFound, "no symbol t.Unknown"));
    const std::uint64_t too_large = (std::uint64_t{1} << 32) + 300;
    EXPECT_EQ(ends.Ask(FileOfExtension("t.Base", too_large)),
              "0" + Error(GrpcCode::kNotFound, "no extension 4294967596 of t.Base"));
    EXPECT_EQ(ends.Ask(FileOfExtension("t.Nothing", 300)),
              "0" + Error(GrpcCode::kNotFound, "no extension 300 of t.Nothing"));
    const std::string nothing = "0" + Error(GrpcCode::kUnimplemented, "a request for nothing that is known here");
    EXPECT_EQ(ends.Ask(""), nothing);
    EXPECT_EQ(ends.Ask(Bytes(8, "of a later version") + Number(3, 5)), nothing);

    Http2Call call;
    ASSERT_FALSE(ends.client.Open(GrpcHead(kPath), &call, Soon()));
    ASSERT_TRUE(call.Write(MessageOf(FileByName("x.proto")) + MessageOf(Services()), Soon()).ok());
    ASSERT_FALSE(call.Finish());
    std::string got(1000, '\0');
    std::size_t bytes = 0;
    while (const std::size_t some = call.Read(got.data() + bytes, got.size() - bytes, Soon()).bytes) bytes += some;
    EXPECT_NE(std::string_view(got).substr(0, bytes).find("no file x.proto"), std::string_view::npos);
    EXPECT_NE(std::string_view(got).substr(0, bytes).find("t.Known"), std::string_view::npos);
    EXPECT_EQ(call.trailers().Find("grpc-status"), "0");
  });
}

TEST_P(Http2GrpcReflectionTest, OfSeveralQuestionsTheLastOneCountsAndTheHostComesBack) {
  InFiber([] {
    Ends ends;
    EXPECT_EQ(ends.Names(ends.Ask(FileByName("x.proto") + FileOfSymbol("t.Base"))), Strings{"t/base.proto"});
    const std::string request = Bytes(1, "weft.example") + Services();
    const Http2Answer answer = ends.client.Ask(GrpcHead(kPath), MessageOf(request), Soon());
    EXPECT_EQ(answer.body.substr(5),
              Bytes(1, "weft.example") + Bytes(2, request) + Bytes(6, Bytes(1, Bytes(1, "t.Known"))));
  });
}

TEST_P(Http2GrpcReflectionTest, ARequestThatIsNoneEndsTheStream) {
  InFiber([] {
    Ends ends;
    using namespace std::string_literals;
    for (const std::string& none : {"\x1a"s, "\x1a\x05"s, "\x1a\x05x"s, "\x80"s, "\x0b"s, "\x2a\x02\x0a\x05"s,
                                    "\x2a\x02\x10\x80"s, "\x3d\x00"s, "\x19\x00"s}) {
      EXPECT_EQ(ends.Ask(none), "3") << none;
    }
  });
}

// Protobuf's pool of what is linked in, which takes long for them.
TEST_P(Http2GrpcReflectionTest, NamesThatAreTooLongAreNotLookedUp) {
  InFiber([] {
    Http2GrpcService service;
    Http2GrpcReflection reflection;
    reflection.AddTo(&service);
    ServedConnection served(service.handler());
    Http2Client client(Http2Transport(served.client()));
    ASSERT_TRUE(client.Start());
    for (const std::size_t size : {std::size_t{900}, std::size_t{2'000'000}}) {
      const Http2Answer answer = client.Ask(GrpcHead(kPath), MessageOf(FileOfSymbol(std::string(size, '.'))), Soon());
      EXPECT_EQ(GrpcEndOf(answer).Find("grpc-status"), size == 900 ? "0" : "3");
      EXPECT_EQ(answer.body.empty(), size != 900);
    }
    const Http2Answer answer =
        client.Ask(GrpcHead(kPath), MessageOf(FileOfSymbol("google.protobuf.FileDescriptorProto")), Soon());
    EXPECT_NE(answer.body.find("google/protobuf/descriptor.proto"), std::string::npos);
  });
}

TEST_P(Http2GrpcReflectionTest, FieldsOfOtherTypesArePassedOver) {
  InFiber([] {
    Ends ends;
    const std::string others = std::string(
                                   "\x4d"
                                   "four"
                                   "\x51"
                                   "andeight",
                                   14) +
                               Number(3, 1) + Number(12, 1u << 30);
    const std::string known = "0" + Bytes(6, Bytes(1, Bytes(1, "t.Known")));
    EXPECT_EQ(ends.Ask(Services() + others), known);
    EXPECT_EQ(ends.Ask(others + Services()), known);
  });
}

}  // namespace
}  // namespace weft::interop
