// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PinLibraryOf(): the library that an address lies in stays in memory until the process ends, whatever dlclose() says.
//
// For libraries with functions that are called when a thread or a fiber ends, as glibc does for the destructors of
// thread_locals: a plugin that is unloaded before would take them away, and the thread would die at its end.
// Any thread. It takes the dynamic linker's lock, which a thread in dlopen() holds: not where that thread may wait for
// the caller.
#ifndef WEFT_BASE_THREAD_PIN_LIBRARY_H_
#define WEFT_BASE_THREAD_PIN_LIBRARY_H_

namespace weft::base {

// False: it lies in no library, or the dynamic linker refuses.
bool PinLibraryOf(const void* address) noexcept;

// The same for the library with this function, once.
void PinThisLibrary() noexcept;

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_PIN_LIBRARY_H_
