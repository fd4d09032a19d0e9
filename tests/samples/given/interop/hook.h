// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
struct redisContext;
redisContext* redisConnect(const char* address, int port);
void* redisCommand(redisContext* redis, const char* format, ...);
const char* key;
