// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "databases/clients.h"

#include <dlfcn.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>

#include <cstddef>
#include <iostream>
#include <type_traits>
#include <utility>

namespace examples {

namespace {

class RedisClient final : public DatabaseClient {
 public:
  RedisClient(redisContext* connection, double server_ms)
      : connection_(connection),
        // Nobody pushes to the list, so it waits for its time-out, in seconds.
        command_(server_ms > 0 ? "BLPOP weft:nothing " + std::to_string(server_ms / 1000) : "PING") {}
  ~RedisClient() override { redisFree(connection_); }

  bool Query() override {
    void* const reply = redisCommand(connection_, command_.c_str());
    if (reply == nullptr) {
      std::cerr << "redis: " << connection_->errstr << '\n';
      return false;
    }
    const bool fine = static_cast<redisReply*>(reply)->type != REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return fine;
  }

 private:
  redisContext* const connection_;
  const std::string command_;
};

class PostgresClient final : public DatabaseClient {
 public:
  PostgresClient(PGconn* connection, double server_ms)
      : connection_(connection),
        query_(server_ms > 0 ? "SELECT pg_sleep(" + std::to_string(server_ms / 1000) + ")" : "SELECT 1") {}
  ~PostgresClient() override { PQfinish(connection_); }

  bool Query() override {
    PGresult* const result = PQexec(connection_, query_.c_str());
    const bool fine = PQresultStatus(result) == PGRES_TUPLES_OK;
    if (!fine) std::cerr << "postgres: " << PQerrorMessage(connection_);
    PQclear(result);
    return fine;
  }

 private:
  PGconn* const connection_;
  const std::string query_;
};

// libcurl's functions, by dlopen(): the program needs neither its headers nor, for the other clients, itself.
struct Curl {
  void* (*init)() = nullptr;
  int (*setopt)(void*, int, ...) = nullptr;
  int (*perform)(void*) = nullptr;
  int (*getinfo)(void*, int, ...) = nullptr;
  void (*cleanup)(void*) = nullptr;
  const char* (*strerror)(int) = nullptr;
  // As in curl/curl.h, whose numbers do not change.
  static constexpr int kWriteFunction = 20011;
  static constexpr int kUrl = 10002;
  static constexpr int kTimeoutMs = 155;
  static constexpr int kNoSignal = 99;
  static constexpr int kResponseCode = 0x200000 + 2;

  // Never unloaded. nullptr: it is not there.
  static const Curl* Get() {
    static const Curl* const curl = Load();
    return curl;
  }

 private:
  static const Curl* Load() {
    void* const library = ::dlopen("libcurl.so.4", RTLD_NOW);
    if (library == nullptr) return nullptr;
    static Curl curl;
    const auto find = [library](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(::dlsym(library, name));
      return *function != nullptr;
    };
    const bool has_all = find("curl_easy_init", &curl.init) && find("curl_easy_setopt", &curl.setopt) &&
                         find("curl_easy_perform", &curl.perform) && find("curl_easy_getinfo", &curl.getinfo) &&
                         find("curl_easy_cleanup", &curl.cleanup) && find("curl_easy_strerror", &curl.strerror);
    return has_all ? &curl : nullptr;
  }
};

class HttpClient final : public DatabaseClient {
 public:
  HttpClient(const Curl& curl, const std::string& url, double server_ms)
      : curl_(curl), handle_(curl.init()), expected_(server_ms > 0 ? 401 : 200) {
    curl_.setopt(handle_, Curl::kUrl, (server_ms > 0 ? url + "wait" : url).c_str());
    curl_.setopt(
        handle_, Curl::kWriteFunction, +[](char*, std::size_t size, std::size_t count, void*) { return size * count; });
    curl_.setopt(handle_, Curl::kTimeoutMs, 30'000L);
    curl_.setopt(handle_, Curl::kNoSignal, 1L);
  }
  ~HttpClient() override { curl_.cleanup(handle_); }

  bool Query() override {
    long status = 0;
    const int error = curl_.perform(handle_);
    if (error == 0) curl_.getinfo(handle_, Curl::kResponseCode, &status);
    if (status == expected_) return true;
    std::cerr << "http: " << (error != 0 ? curl_.strerror(error) : "status " + std::to_string(status)) << '\n';
    return false;
  }

 private:
  const Curl& curl_;
  void* const handle_;
  const long expected_;
};

std::unique_ptr<DatabaseClient> ConnectToHttp(const std::string& server, double server_ms) {
  if (const Curl* const curl = Curl::Get()) return std::make_unique<HttpClient>(*curl, server, server_ms);
  std::cerr << "http: there is no libcurl.so.4\n";
  return nullptr;
}

std::unique_ptr<DatabaseClient> ConnectToRedis(const std::string& server, double server_ms) {
  const std::size_t colon = server.rfind(':');
  const int port = colon == std::string::npos ? 6379 : std::stoi(server.substr(colon + 1));
  redisContext* const connection = redisConnect(server.substr(0, colon).c_str(), port);
  if (connection != nullptr && connection->err == 0) return std::make_unique<RedisClient>(connection, server_ms);
  std::cerr << "redis: " << (connection != nullptr ? connection->errstr : "no memory") << '\n';
  redisFree(connection);
  return nullptr;
}

std::unique_ptr<DatabaseClient> ConnectToPostgres(const std::string& server, double server_ms) {
  PGconn* const connection = PQconnectdb(server.c_str());
  if (PQstatus(connection) == CONNECTION_OK) return std::make_unique<PostgresClient>(connection, server_ms);
  std::cerr << "postgres: " << PQerrorMessage(connection);
  PQfinish(connection);
  return nullptr;
}

}  // namespace

std::unique_ptr<DatabaseClient> DatabaseClient::Connect(const std::string& kind, const std::string& server,
                                                        double server_ms) {
  if (kind == "redis") return ConnectToRedis(server, server_ms);
  if (kind == "postgres") return ConnectToPostgres(server, server_ms);
  if (kind == "http") return ConnectToHttp(server, server_ms);
  std::cerr << "--client: expected redis, postgres or http\n";
  return nullptr;
}

}  // namespace examples
