// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The symbols that build_mode.h refers to. They bring this object file into every program, so it also ends a process
// that has Weft twice (linked statically twice, or once statically and once as libweft.so). Each copy would have its
// own workers and runtime, and would take a fiber of the other copy for a plain thread: a lock would then block the
// fiber's worker.
// Each copy carries an ELF note, which the loader shows whatever the symbols' visibility, and searches for all notes
// when it is loaded: a few microseconds.

#include "weft/base/report/build_mode.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
const char WEFT_SANITIZER_SYMBOL = 0;
const char WEFT_STANDARD_LIBRARY_SYMBOL = 0;
}

asm(R"(
  .pushsection .note.weft,"a",%note
  .balign 4
  .long 5
  .long 0
  .long 1
  .asciz "Weft"
  .balign 4
  .popsection
)");

namespace weft::base {
namespace {

constexpr char kName[] = "Weft";

std::uintptr_t RoundUp(std::uintptr_t size) { return (size + 3) / 4 * 4; }

// Notes aligned to 8 (.note.gnu.property) have their own segment, without ours.
bool HasNote(const char* notes, std::size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof(header));
    const std::size_t length = sizeof(header) + RoundUp(header.n_namesz) + RoundUp(header.n_descsz);
    if (length > size) return false;
    if (header.n_namesz == sizeof(kName) && std::memcmp(notes + sizeof(header), kName, sizeof(kName)) == 0) return true;
    notes += length;
    size -= length;
  }
  return false;
}

std::string NameOf(const char* name) {
  if (name[0] != '\0') return name;
  char path[PATH_MAX];  // The program itself.
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "the program";
}

int Look(dl_phdr_info* info, std::size_t /*size*/, void* files) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE || segment.p_align > 4) continue;
    if (HasNote(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz)) {
      static_cast<std::vector<std::string>*>(files)->push_back(NameOf(info->dlpi_name));
      break;
    }
  }
  return 0;
}

// Before all other initialisers: else gflags would report a flag that is defined twice.
__attribute__((constructor(101))) void CheckThatThereIsOneCopy() {
  std::vector<std::string> files;
  dl_iterate_phdr(&Look, &files);
  if (files.size() < 2) return;
  std::fprintf(
      stderr,
      "weft: this process has %zu copies of Weft; fibers of one are no fibers to another. Link all with libweft.so"
      " (BUILD_SHARED_LIBS=ON), or one of them only:\n",
      files.size());
  for (const std::string& file : files) std::fprintf(stderr, "  %s\n", file.c_str());
  std::_Exit(2);
}

}  // namespace
}  // namespace weft::base
