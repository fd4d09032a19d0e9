// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

namespace pb {
struct Ask {};
struct Answer {};
namespace Store {
struct CallbackService {
  virtual ~CallbackService();
  virtual grpc::ServerWriteReactor<Answer>* Watch(grpc::CallbackServerContext*, const Ask*);
  virtual grpc::ServerReadReactor<Ask>* Upload(grpc::CallbackServerContext*, Answer*);
  virtual grpc::ServerBidiReactor<Ask, Answer>* Chat(grpc::CallbackServerContext*);
};
}  // namespace Store
}  // namespace pb
bool Next(const pb::Ask& ask, pb::Answer* answer);
void Add(const pb::Ask& ask, pb::Answer* answer);
