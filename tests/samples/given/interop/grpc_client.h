// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the samples of the header of this name use: see ../../compile_samples.py.

#include <grpcpp/client_context.h>

#include "weft/fiber/fiber_scope.h"
namespace pb {
struct Ask {};
struct Answer {};
struct Greeter {
  struct Stub {
    struct async {
      void Greet(grpc::ClientContext*, const Ask*, Answer*, std::function<void(grpc::Status)>);
      void Watch(grpc::ClientContext*, const Ask*, grpc::ClientReadReactor<Answer>*);
      void Upload(grpc::ClientContext*, Answer*, grpc::ClientWriteReactor<Ask>*);
      void Chat(grpc::ClientContext*, grpc::ClientBidiReactor<Ask, Answer>*);
    };
    struct async* async();
  };
  static std::unique_ptr<Stub> NewStub(int channel);
};
}  // namespace pb
int channel;
std::unique_ptr<pb::Greeter::Stub> stub;
grpc::ClientContext context;
pb::Ask ask;
pb::Answer answer;
void Use(const pb::Answer& answer);
bool Next(pb::Ask* ask);
