// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// weft_bare_switch <switches>: two flows take turns by Boost.Context's jump_fcontext() alone: the floor under every
// switch. The row `switch` of the comparison counts its instructions, as the difference of two runs.

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace fcontext = boost::context::detail;

int main(int argc, char** argv) {
  const long switches = argc == 2 ? std::atol(argv[1]) : 0;
  if (switches <= 0) {
    std::fprintf(stderr, "usage: %s <switches>: a number above 0\n", argv[0]);
    return 2;
  }
  std::vector<char> stack(64 * 1024);
  fcontext::fcontext_t other =
      fcontext::make_fcontext(stack.data() + stack.size(), stack.size(), [](fcontext::transfer_t from) {
        for (;;) from = fcontext::jump_fcontext(from.fctx, nullptr);
      });
  for (long i = 0; i < switches; i += 2) other = fcontext::jump_fcontext(other, nullptr).fctx;
  return 0;
}
