// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <functional>
#include <vector>

struct User {};
struct Stock {};
struct Reply {};
struct Order {};
User GetUser(int id);
Stock GetStock(int item);
std::vector<std::function<Reply()>> CallsToAllReplicas();
void Ship(Order& order);
int id;
int item;
std::vector<Order> orders;
