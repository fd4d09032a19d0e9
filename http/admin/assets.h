// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AdminAssets(): the files of http/admin/assets, which the build puts into the library (assets.cc.in).
#ifndef WEFT_HTTP_ADMIN_ASSETS_H_
#define WEFT_HTTP_ADMIN_ASSETS_H_

#include <span>
#include <string_view>

namespace weft::http {

struct AdminAsset {
  std::string_view name;  // below the path of the pages; "": the first page
  std::string_view type;
  std::string_view text;
};

std::span<const AdminAsset> AdminAssets();

}  // namespace weft::http

#endif  // WEFT_HTTP_ADMIN_ASSETS_H_
