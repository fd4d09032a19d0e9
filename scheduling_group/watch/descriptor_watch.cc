// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/descriptor_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <cstddef>
#include <limits>

#include "weft/base/report/log.h"

namespace weft::scheduling_group {
namespace {

std::size_t CountOpenDescriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  std::size_t count = 0;
  while (const dirent* const entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count - 1;  // Without the folder's.
}

bool has_warned = false;  // Used by the Watchdog only.

}  // namespace

void LookAtDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t many = limit.rlim_cur / 10 * 9;
  const bool may_be =
      many > 0 && many < std::numeric_limits<int>::max() && ::fcntl(static_cast<int>(many), F_GETFD) >= 0;
  if (!may_be) has_warned = false;
  if (!may_be || has_warned) return;
  if (const std::size_t open = CountOpenDescriptors(); open >= many) {
    WEFT_LOG(WARNING, open, " of ", limit.rlim_cur,
             " descriptors are open: soon accept(), connect() and open() fail; raise the limit (ulimit -n, "
             "LimitNOFILE=), or bound what opens them (TcpServer::Options::max_connections)");
    has_warned = true;
  }
}

}  // namespace weft::scheduling_group
