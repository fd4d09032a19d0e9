// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2GrpcReflection: the reflection service that grpcurl, grpcui, Postman and the like ask what a server offers
// (grpc.reflection.v1.ServerReflection, and its older name v1alpha), for an Http2GrpcService. For programs that have
// Protobuf; by the CMake target weft::http2, with Protobuf's library linked by the program.
// Sample:
//     interop::Http2GrpcService service;
//     interop::Http2GrpcReflection reflection;            // of the messages and services that are linked in
//     reflection.AddTo(&service);
//
// It lists the services of Http2GrpcService that the pool can describe: gRPC's own health service is among them only if
// the program has its descriptors. With a file come all that it imports. What the pool does not have is answered with
// kNotFound, and the stream goes on. A request of more than kLongestRequest bytes ends it with kInvalidArgument: for an
// unknown name Protobuf 3 takes a time that is the square of its length, with the pool locked. A stream lasts until its
// client ends it, and holds a drain up as any other call does.
//
// Who may call: any fiber and thread. AddTo(): before the service serves. The reflection outlives the service's calls,
// and the pool outlives the reflection.
// The protocol: grpc/grpc, src/proto/grpc/reflection/v1/reflection.proto.
#ifndef WEFT_INTEROP_HTTP2_GRPC_REFLECTION_H_
#define WEFT_INTEROP_HTTP2_GRPC_REFLECTION_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/interop/grpc/protobuf_fields.h"
#include "weft/interop/http2_grpc.h"

namespace weft::interop {

class Http2GrpcReflection {
 public:
  // Where descriptors are found.
  using Pool = google::protobuf::DescriptorPool;

  // Of the messages and services in `pool`, which outlives this.
  explicit Http2GrpcReflection(const Pool* pool = Pool::generated_pool()) : pool_(pool) {}
  Http2GrpcReflection(const Http2GrpcReflection&) = delete;
  Http2GrpcReflection& operator=(const Http2GrpcReflection&) = delete;

  // A longer request ends its stream with kInvalidArgument.
  static constexpr std::size_t kLongestRequest = 1024;

  // Adds both versions of the reflection service, before it serves.
  void AddTo(Http2GrpcService* service) {
    for (const char* package : {"/grpc.reflection.v1", "/grpc.reflection.v1alpha"}) {
      service->Add(std::string(package) + ".ServerReflection/ServerReflectionInfo",
                   [this, service](GrpcCall& call) { return Serve(*service, call); });
    }
  }

 private:
  using File = google::protobuf::FileDescriptor;

  // Fields of ServerReflectionRequest; of what is asked the last one counts.
  enum Asked : std::uint64_t {
    kNothing = 0,
    kHost = 1,
    kFileByName = 3,
    kFileOfSymbol = 4,
    kFileOfExtension = 5,
    kExtensionsOfType = 6,
    kServices = 7,
  };
  // Fields of ServerReflectionResponse.
  enum Answered : std::uint64_t {
    kValidHost = 1,
    kOriginalRequest = 2,
    kFiles = 4,
    kExtensions = 5,
    kServiceList = 6,
    kError = 7,
  };

  GrpcStatus Serve(const Http2GrpcService& service, GrpcCall& call) const {
    for (std::string_view request; call.ReadBytes(&request);) {
      if (request.size() > kLongestRequest) return {GrpcCode::kInvalidArgument, "a request that is too long"};
      std::string answer;
      if (!Answer(service, request, &answer)) return {GrpcCode::kInvalidArgument, "a request that cannot be parsed"};
      if (!call.WriteBytes(answer)) return {GrpcCode::kCancelled};
    }
    return {};
  }

  // False: the request is none.
  bool Answer(const Http2GrpcService& service, std::string_view request, std::string* answer) const {
    std::uint64_t asked = kNothing;
    std::string about;
    ProtobufFields fields(request);
    while (fields.Next()) {
      const std::uint64_t field = fields.tag() >> 3;
      if (fields.tag() != BytesTag(field)) continue;
      if (field == kHost) AppendBytes(answer, kValidHost, fields.bytes());
      if (field < kFileByName || field > kServices) continue;
      asked = field;
      about = fields.bytes();
    }
    if (!fields.ok()) return false;
    AppendBytes(answer, kOriginalRequest, request);
    switch (asked) {
      case kFileByName:
        AnswerFile(pool_->FindFileByName(about), "file " + about, answer);
        break;
      case kFileOfSymbol:
        AnswerFile(pool_->FindFileContainingSymbol(about), "symbol " + about, answer);
        break;
      case kFileOfExtension:
        return AnswerFileOfExtension(about, answer);
      case kExtensionsOfType:
        AnswerExtensions(about, answer);
        break;
      case kServices:
        AnswerServices(service, answer);
        break;
      default:
        AnswerError(GrpcCode::kUnimplemented, "a request for nothing that is known here", answer);
    }
    return true;
  }

  // FileDescriptorResponse: { repeated bytes file_descriptor_proto = 1; }
  static void AnswerFile(const File* file, const std::string& what, std::string* answer) {
    if (file == nullptr) return AnswerError(GrpcCode::kNotFound, "no " + what, answer);
    std::string response;
    std::set<const File*> seen{file};
    for (std::vector<const File*> left{file}; !left.empty();) {
      const File* const next = left.back();
      left.pop_back();
      google::protobuf::FileDescriptorProto proto;
      next->CopyTo(&proto);
      AppendBytes(&response, 1, proto.SerializeAsString());
      for (int i = 0; i < next->dependency_count(); ++i) {
        if (seen.insert(next->dependency(i)).second) left.push_back(next->dependency(i));
      }
    }
    AppendBytes(answer, kFiles, response);
  }

  // ExtensionRequest: { string containing_type = 1; int32 extension_number = 2; }
  bool AnswerFileOfExtension(std::string_view about, std::string* answer) const {
    std::string type;
    std::uint64_t number = 0;
    ProtobufFields fields(about);
    while (fields.Next()) {
      if (fields.tag() == BytesTag(1)) type = fields.bytes();
      if (fields.tag() == NumberTag(2)) number = fields.number();
    }
    const google::protobuf::Descriptor* const extended = pool_->FindMessageTypeByName(type);
    const google::protobuf::FieldDescriptor* extension = nullptr;
    if (extended != nullptr && number <= std::numeric_limits<int>::max()) {
      extension = pool_->FindExtensionByNumber(extended, static_cast<int>(number));
    }
    AnswerFile(extension != nullptr ? extension->file() : nullptr,
               "extension " + std::to_string(number) + " of " + type, answer);
    return fields.ok();
  }

  // ExtensionNumberResponse: { string base_type_name = 1; repeated int32 extension_number = 2; }
  void AnswerExtensions(const std::string& type, std::string* answer) const {
    const google::protobuf::Descriptor* const extended = pool_->FindMessageTypeByName(type);
    if (extended == nullptr) return AnswerError(GrpcCode::kNotFound, "no message " + type, answer);
    std::vector<const google::protobuf::FieldDescriptor*> extensions;
    pool_->FindAllExtensions(extended, &extensions);
    std::string numbers;
    for (const auto* extension : extensions) AppendVarint(&numbers, static_cast<std::uint64_t>(extension->number()));
    std::string response;
    AppendBytes(&response, 1, type);
    AppendBytes(&response, 2, numbers);
    AppendBytes(answer, kExtensions, response);
  }

  // ListServiceResponse: { repeated ServiceResponse service = 1; }, ServiceResponse: { string name = 1; }
  void AnswerServices(const Http2GrpcService& service, std::string* answer) const {
    std::string response;
    for (const std::string& name : service.services()) {
      if (pool_->FindServiceByName(name) == nullptr) continue;
      std::string entry;
      AppendBytes(&entry, 1, name);
      AppendBytes(&response, 1, entry);
    }
    AppendBytes(answer, kServiceList, response);
  }

  // ErrorResponse: { int32 error_code = 1; string error_message = 2; }
  static void AnswerError(GrpcCode code, std::string_view message, std::string* answer) {
    std::string response;
    AppendNumber(&response, 1, static_cast<std::uint64_t>(code));
    AppendBytes(&response, 2, message);
    AppendBytes(answer, kError, response);
  }

  const Pool* const pool_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_GRPC_REFLECTION_H_
