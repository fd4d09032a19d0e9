// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "databases/clients.h"

#include <hiredis/hiredis.h>
#include <libpq-fe.h>

#include <iostream>
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
  std::cerr << "--client: expected redis or postgres\n";
  return nullptr;
}

}  // namespace examples
