// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// TrimArena: gives the memory of an arena's free entities back to the system, after a burst of fibers.
//
// Wholly free chunks become cold. Of a chunk with entities in use or in a thread's cache, the pages without any are
// given back. Either way the memory then reads as zeroes: free entities (EP1 in entity_pool.h).
#ifndef WEFT_SCHEDULING_GROUP_ENTITY_TRIM_H_
#define WEFT_SCHEDULING_GROUP_ENTITY_TRIM_H_

#include "weft/scheduling_group/node_arena.h"

namespace weft::scheduling_group {

// Any thread; fibers come and go meanwhile. Without memory to work with it does nothing but throw std::bad_alloc.
void TrimArena(NodeArena& arena);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_ENTITY_TRIM_H_
