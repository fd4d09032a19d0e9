// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Which lock guards what, checked by clang's -Wthread-safety; empty for other compilers.
#ifndef WEFT_BASE_THREAD_THREAD_ANNOTATIONS_H_
#define WEFT_BASE_THREAD_THREAD_ANNOTATIONS_H_

#if defined(__clang__)
#define WEFT_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define WEFT_THREAD_ANNOTATION(x)
#endif

#define WEFT_CAPABILITY(name) WEFT_THREAD_ANNOTATION(capability(name))
#define WEFT_SCOPED_CAPABILITY WEFT_THREAD_ANNOTATION(scoped_lockable)
#define WEFT_GUARDED_BY(lock) WEFT_THREAD_ANNOTATION(guarded_by(lock))
#define WEFT_PT_GUARDED_BY(lock) WEFT_THREAD_ANNOTATION(pt_guarded_by(lock))
#define WEFT_REQUIRES(...) WEFT_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define WEFT_REQUIRES_SHARED(...) WEFT_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define WEFT_ACQUIRE(...) WEFT_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define WEFT_ACQUIRE_SHARED(...) WEFT_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define WEFT_RELEASE(...) WEFT_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define WEFT_RELEASE_SHARED(...) WEFT_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define WEFT_TRY_ACQUIRE(...) WEFT_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define WEFT_TRY_ACQUIRE_SHARED(...) WEFT_THREAD_ANNOTATION(try_acquire_shared_capability(__VA_ARGS__))
#define WEFT_EXCLUDES(...) WEFT_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define WEFT_ASSERT_HELD(...) WEFT_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
#define WEFT_RETURN_CAPABILITY(x) WEFT_THREAD_ANNOTATION(lock_returned(x))
#define WEFT_ACQUIRED_BEFORE(...) WEFT_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define WEFT_ACQUIRED_AFTER(...) WEFT_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
#define WEFT_NO_THREAD_SAFETY_ANALYSIS WEFT_THREAD_ANNOTATION(no_thread_safety_analysis)

#endif  // WEFT_BASE_THREAD_THREAD_ANNOTATIONS_H_
