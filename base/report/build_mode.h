// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How this is compiled, as far as a program and the library must agree: WEFT_ASAN and WEFT_TSAN (1 or 0), and the C++
// standard library.
//
// A sanitizer changes the layout of Context and what a switch tells the sanitizer's runtime; another standard library
// changes every std:: type. A program that differs from the library does not link: each object file refers to a symbol
// named after its mode, and the library defines those of its own mode only (build_mode.cc). docs/sanitizers.md says how
// to build a library that fits. NDEBUG may differ: no layout depends on it.
#ifndef WEFT_BASE_REPORT_BUILD_MODE_H_
#define WEFT_BASE_REPORT_BUILD_MODE_H_

#include <version>  // _LIBCPP_VERSION

#if !defined(__cpp_exceptions)
#error "weft needs C++ exceptions: compile without -fno-exceptions what includes its headers"
#endif
#if defined(_LIBCPP_VERSION) && !defined(__cpp_lib_atomic_ref)
#error "weft needs std::atomic_ref, which this libc++ lacks (LLVM 19 has it): use libstdc++, clang's default on Linux"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ASAN 1
#endif
#endif
#ifndef WEFT_ASAN
#define WEFT_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif
#ifndef WEFT_TSAN
#define WEFT_TSAN 0
#endif

#if WEFT_ASAN
#define WEFT_SANITIZER_SYMBOL weft_must_be_built_with_WEFT_SANITIZE_address_because_the_program_has_AddressSanitizer
#elif WEFT_TSAN
#define WEFT_SANITIZER_SYMBOL weft_must_be_built_with_WEFT_SANITIZE_thread_because_the_program_has_ThreadSanitizer
#else
#define WEFT_SANITIZER_SYMBOL weft_must_be_built_without_WEFT_SANITIZE_because_the_program_has_no_sanitizer
#endif

#if defined(_LIBCPP_VERSION)
#define WEFT_STANDARD_LIBRARY_SYMBOL weft_must_be_built_with_stdlib_libcxx_because_the_program_is
#else
#define WEFT_STANDARD_LIBRARY_SYMBOL weft_must_be_built_with_stdlib_libstdcxx_because_the_program_is
#endif

#ifndef WEFT_MODEL_CHECK  // A model test is linked with no library.
extern "C" {
extern const char WEFT_SANITIZER_SYMBOL;
extern const char WEFT_STANDARD_LIBRARY_SYMBOL;
}

namespace weft::base {

// Two words in a program, never read.
__attribute__((used)) inline constexpr const char* kBuildMode[] = {&WEFT_SANITIZER_SYMBOL,
                                                                   &WEFT_STANDARD_LIBRARY_SYMBOL};

}  // namespace weft::base
#endif

#endif  // WEFT_BASE_REPORT_BUILD_MODE_H_
