// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HeapTrim: gives memory back to the system when most of many connections have closed.
//
// glibc's free() gives back what lies at the end of its heap, and keeps all below the last block that is in use. After
// a burst that may be all of it, for ever: of 4,000 half-received requests 26 of 40 MB stayed. malloc_trim() gives back
// every page that is free. It takes the lock of each arena meanwhile, some milliseconds for 100 MB, so it is called
// when the connections have halved, and not for fewer than kWorthIt.
#ifndef WEFT_EXAMPLES_SERVING_HEAP_TRIM_H_
#define WEFT_EXAMPLES_SERVING_HEAP_TRIM_H_

#include <cstddef>

namespace examples {

class HeapTrim {
 public:
  // In a fiber, now and then: so many connections are open. Waits while the memory is given back.
  void Look(std::size_t open);

 private:
  static constexpr std::size_t kWorthIt = 1'000;

  std::size_t most_ = 0;  // since the last trim
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_HEAP_TRIM_H_
