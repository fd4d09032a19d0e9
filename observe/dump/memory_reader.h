// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// MemoryReader: copies memory of this process that another thread may be writing or unmapping: the kernel copies it, so
// a page that is gone or a guard is an answer and not a fault, and no data race is in our code. What was copied may be
// torn: the caller validates it.
//
// By process_vm_readv(), 1 us a call. Where that is not allowed (seccomp) or not there: /proc/self/mem. In a forked
// child it reads the child. One thread at a time.
#ifndef WEFT_OBSERVE_DUMP_MEMORY_READER_H_
#define WEFT_OBSERVE_DUMP_MEMORY_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weft::observe {

class MemoryReader {
 public:
  struct Part {
    void* to;
    std::uint64_t from;
    std::size_t size;
  };

  // use_proc: /proc/self/mem from the start.
  explicit MemoryReader(bool use_proc = false) : use_proc_(use_proc) {}
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;
  virtual ~MemoryReader();

  static constexpr std::size_t kMostParts = 4;
  // In this order: the first part has been copied when the second is begun. False: one of them cannot be read.
  // (Virtual: a test lets fibers run between two parts.)
  [[nodiscard]] virtual bool Read(std::span<const Part> parts) noexcept;
  [[nodiscard]] bool Read(void* to, std::uint64_t from, std::size_t size) noexcept {
    const Part part{to, from, size};
    return Read({&part, 1});
  }
  // A string of at most `most` characters; "" if it cannot be read.
  std::string ReadString(std::uint64_t from, std::size_t most);

 private:
  bool ReadByProc(std::span<const Part> parts) noexcept;

  bool use_proc_;
  int proc_fd_ = -1;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_MEMORY_READER_H_
