// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <string>
namespace pb {
struct Ask {
  std::string name() const;
};
struct Answer {
  void set_text(const std::string& text);
};
namespace Greeter {
struct CallbackService {
  virtual ~CallbackService();
  virtual grpc::ServerUnaryReactor* Greet(grpc::CallbackServerContext*, const Ask*, Answer*);
};
}  // namespace Greeter
}  // namespace pb
std::string LookUp(const std::string& name);
