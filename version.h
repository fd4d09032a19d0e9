// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Weft's version, for programs that must know it at compile time:
//   #if WEFT_VERSION_NUMBER >= 200   // 0.2.0 or later
// The only place where it stands: CMakeLists.txt reads the three numbers here, for project(VERSION), the package's
// version files and the shared library's soname. Programs of one minor version can be linked with any library of it.
#ifndef WEFT_VERSION_H_
#define WEFT_VERSION_H_

// The three numbers of the version.
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 2
#define WEFT_VERSION_PATCH 0

// 0.12.3 is 1203.
#define WEFT_VERSION_NUMBER (WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH)

// "0.12.3"
#define WEFT_VERSION                    \
  WEFT_VERSION_TEXT(WEFT_VERSION_MAJOR) \
  "." WEFT_VERSION_TEXT(WEFT_VERSION_MINOR) "." WEFT_VERSION_TEXT(WEFT_VERSION_PATCH)
// For WEFT_VERSION.
#define WEFT_VERSION_TEXT(number) WEFT_VERSION_QUOTE(number)
#define WEFT_VERSION_QUOTE(number) #number

#endif  // WEFT_VERSION_H_
