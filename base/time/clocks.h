// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// std::chrono's durations, time points and clocks, without its calendars.
//
// Public headers include this: 6,000 lines, where libstdc++'s <chrono> has 31,000 (tests/headers/weight_test.py). A
// program that uses calendars or prints durations includes <chrono> itself.
#ifndef WEFT_BASE_TIME_CLOCKS_H_
#define WEFT_BASE_TIME_CLOCKS_H_

#include <version>  // __GLIBCXX__

#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // What libstdc++'s own <thread> and <mutex> include.
#else
#include <chrono>
#endif

#endif  // WEFT_BASE_TIME_CLOCKS_H_
