// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// gRPC's own client asks in grpc_python_test.py.

#include "weft/interop/http2_grpc_health.h"

#include <string>
#include <string_view>

#include "weft/interop/http2_client.h"
#include "weft/tests/interop/http2_grpc_fixture.h"

namespace weft::interop {
namespace {

using io::Soon;
using namespace std::string_view_literals;

std::string Request(std::string_view service) {
  return MessageOf(std::string("\x0a").append(1, static_cast<char>(service.size())).append(service));
}
std::string Reply(char status) { return MessageOf(std::string("\x08").append(1, status)); }
std::string Answer(char status) { return std::string("0").append(Reply(status)); }  // As Check() below says it.
constexpr char kServing = 1, kNotServing = 2, kServiceUnknown = 3;

class Http2GrpcHealthTest : public io::IoTest {
 protected:
  struct Ends {
    Ends() : served(service.handler()), client(Http2Transport(served.client())) {
      EXPECT_TRUE(client.Start());
      health.AddTo(&service);
    }
    // The status, and the answer's bytes.
    std::string Check(std::string_view request) { return Ask("Check", request); }
    std::string Ask(std::string_view method, std::string_view request) {
      const std::string path = std::string("/grpc.health.v1.Health/").append(method);
      const Http2Answer answer = client.Ask(GrpcHead(path), request, Soon());
      EXPECT_FALSE(answer.error) << answer.error.message();
      return std::string(GrpcEndOf(answer).Find("grpc-status")).append(answer.body);
    }

    Http2GrpcService service;
    Http2GrpcHealth health;
    ServedConnection served;
    Http2Client client;
  };

  class Watch {
   public:
    Watch(Ends& ends, std::string_view service) {
      EXPECT_FALSE(ends.client.Open(GrpcHead("/grpc.health.v1.Health/Watch"), &call_, Soon()));
      EXPECT_TRUE(call_.Write(Request(service), Soon()).ok());
      EXPECT_FALSE(call_.Finish());
    }
    std::string Next() {
      std::string got(7, '\0');
      std::size_t bytes = 0;
      while (bytes < got.size()) {
        const io::IoResult some = call_.Read(got.data() + bytes, got.size() - bytes, Soon());
        if (some.bytes == 0) break;
        bytes += some.bytes;
      }
      return got.substr(0, bytes);
    }
    std::string_view Status() { return call_.trailers().Find("grpc-status"); }

   private:
    Http2Call call_;
  };
};
WEFT_INSTANTIATE_IO_SHAPES(Http2GrpcHealthTest);

TEST_P(Http2GrpcHealthTest, ACheckSaysWhatWasSet) {
  InFiber([] {
    Ends ends;
    EXPECT_EQ(ends.Check(Request("")), Answer(kServing));
    EXPECT_EQ(ends.Check(MessageOf("")), Answer(kServing));
    EXPECT_EQ(ends.Check(Request("t.S")), "5");
    ends.health.SetServing("t.S", true);
    EXPECT_EQ(ends.Check(Request("t.S")), Answer(kServing));
    ends.health.SetServing("t.S", false);
    EXPECT_EQ(ends.Check(Request("t.S")), Answer(kNotServing));
    EXPECT_EQ(ends.Check(Request("")), Answer(kServing));
    ends.health.SetServing("t.S", true);
    ends.health.Shutdown();
    ends.health.SetServing("", true);
    for (const std::string_view service : {"", "t.S"}) EXPECT_EQ(ends.Check(Request(service)), Answer(kNotServing));
  });
}

TEST_P(Http2GrpcHealthTest, ARequestMayHaveFieldsOfLaterVersions) {
  InFiber([] {
    Ends ends;
    ends.health.SetServing("t.S", false);
    // Of all wire types, before and after the name; field 16 takes two bytes.
    const std::string_view name = "\x0a\x03t.S";
    for (const std::string_view other :
         {"\x10\xff\x01"sv, "\x11________"sv, "\x12\x02hi"sv, "\x15____"sv, "\x80\x01\x05"sv}) {
      EXPECT_EQ(ends.Check(MessageOf(std::string(name).append(other))), Answer(kNotServing));
      EXPECT_EQ(ends.Check(MessageOf(std::string(other).append(name))), Answer(kNotServing));
    }
    // Cut short, too long, of no wire type, a number without an end.
    for (const std::string_view bad :
         {"\x0a"sv, "\x0a\x03t."sv, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01t"sv, "\x11_______"sv, "\x15___"sv,
          "\x10"sv, "\x10\xff"sv, "\x13"sv, "\x80"sv, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv}) {
      EXPECT_EQ(ends.Check(MessageOf(bad)), "13") << ::testing::PrintToString(bad);
    }
  });
}

TEST_P(Http2GrpcHealthTest, AWatchIsToldOfEachChange) {
  InFiber([] {
    Ends ends;
    Watch whole(ends, ""), service(ends, "t.S");
    EXPECT_EQ(whole.Next(), Reply(kServing));
    EXPECT_EQ(service.Next(), Reply(kServiceUnknown));
    ends.health.SetServing("t.S", true);
    EXPECT_EQ(service.Next(), Reply(kServing));
    ends.health.SetServing("t.S", false);
    EXPECT_EQ(service.Next(), Reply(kNotServing));
    ends.health.SetServing("t.S", false);  // No change.
    ends.health.SetServing("t.S", true);
    EXPECT_EQ(service.Next(), Reply(kServing));
  });
}

TEST_P(Http2GrpcHealthTest, ShutdownEndsWatches) {
  InFiber([] {
    Ends ends;
    Watch whole(ends, ""), service(ends, "t.S");
    EXPECT_EQ(whole.Next(), Reply(kServing));
    EXPECT_EQ(service.Next(), Reply(kServiceUnknown));
    ends.health.Shutdown();
    EXPECT_EQ(whole.Next(), Reply(kNotServing));
    EXPECT_EQ(whole.Next(), "");
    EXPECT_EQ(whole.Status(), "14");
    EXPECT_EQ(service.Next(), Reply(kServiceUnknown));
    EXPECT_EQ(service.Next(), "");
    EXPECT_EQ(service.Status(), "14");
    EXPECT_EQ(ends.Ask("Watch", Request("")), "14");
  });
}

TEST_P(Http2GrpcHealthTest, AClientThatLeavesEndsItsWatch) {
  InFiber([] {
    Ends ends;
    {
      Watch whole(ends, "");
      EXPECT_EQ(whole.Next(), Reply(kServing));
    }
    ends.client.Close();
    // Serve() returns after its handlers. Its error does not matter: the client may close with a reset.
    static_cast<void>(ends.served.Join());
  });
}

}  // namespace
}  // namespace weft::interop
