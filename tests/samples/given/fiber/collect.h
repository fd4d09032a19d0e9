// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
struct User {};
struct Stock {};
struct Reply {};
struct Order {};
int id = 0;
int item = 0;
std::vector<Order> orders;
User GetUser(int);
Stock GetStock(int);
void Ship(Order&);
std::vector<std::function<Reply()>> CallsToAllReplicas();
