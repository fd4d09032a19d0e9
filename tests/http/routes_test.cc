// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/routes.h"

#include <string>
#include <string_view>

#include "weft/tests/http/http_fixture.h"

namespace weft::http {
namespace {

// Answers with its name.
Routes::Handler Named(std::string name) {
  return [name = std::move(name)](Request&, Response& response) { EXPECT_FALSE(response.Send(200, {}, name)); };
}

class RoutesTest : public io::IoTest {};
WEFT_INSTANTIATE_ONE_IO_SHAPE(RoutesTest);

TEST_P(RoutesTest, TheLongestPathThatFitsAnswers) {
  InFiber([] {
    Routes routes;
    routes.Add("GET", "/", Named("root")).Add("GET", "/a", Named("a")).Add("GET", "/a/", Named("below a"));
    routes.Add("GET", "/a/b/", Named("below b")).Add("POST", "/a", Named("post")).Add("HEAD", "/h", Named("head"));
    ListeningServer served(std::move(routes));
    Client client(served);
    for (const auto& [path, name] : {std::pair<std::string_view, std::string_view>{"/", "root"},
                                     {"/x", "root"},
                                     {"/a", "a"},
                                     {"/a?b/c", "a"},
                                     {"/a/", "below a"},
                                     {"/a/bc", "below a"},
                                     {"/a/b/c/d", "below b"},
                                     {"/ab", "root"}}) {
      client.Send(Get(path));
      EXPECT_EQ(Client::BodyOf(client.Answer()), name) << path;
    }
    client.Send("POST /a HTTP/1.1\r\nHost: h\r\n\r\nHEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(Client::BodyOf(client.Answer()), "post");
    EXPECT_EQ(Client::Field(client.Answer(/*has_body=*/false), "content-length"), "1");
  });
}

TEST_P(RoutesTest, WhatIsNotThereIsSaid) {
  InFiber([] {
    Routes routes;
    routes.Add("GET", "/a", Named("a")).Add("POST", "/a", Named("post"));
    ListeningServer served(std::move(routes));
    Client client(served);
    client.Send(Get("/b") + "PUT /a HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 404 "));
    const std::string refused = client.Answer();
    EXPECT_TRUE(refused.starts_with("HTTP/1.1 405 "));
    EXPECT_EQ(Client::Field(refused, "allow"), "GET, HEAD, POST");
    for (const std::string_view path : {"/a", "/b"}) {
      client.Send("BREW " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n\r\n");
      EXPECT_TRUE(client.Answer().starts_with("HTTP/1.1 501 ")) << path;
    }
  });
}

TEST(RoutesDeathTest, AHandlerIsNotReplacedInSilence) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Routes routes;
  routes.Add("GET", "/a", Named("a"));
  EXPECT_DEATH(routes.Add("GET", "/a", Named("b")), "GET /a has a handler already");
  EXPECT_DEATH(routes.Add("GET", "a", Named("b")), "a path begins with a slash");
}

}  // namespace
}  // namespace weft::http
