// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The unary Echo of examples/grpc_server by Go's gRPC. Request and answer have the same bytes, so it spares itself the
// parsing that the other does.
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
)

type rawCodec struct{}

func (rawCodec) Marshal(value interface{}) ([]byte, error) { return *value.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, value interface{}) error {
	*value.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (rawCodec) Name() string   { return "proto" }
func (rawCodec) String() string { return "proto" }

func echo(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	var message []byte
	if err := decode(&message); err != nil {
		return nil, err
	}
	return &message, nil
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.CustomCodec(rawCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "weft.examples.Greeter",
		HandlerType: (*interface{})(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
	}, nil)
	fmt.Printf("listening on %s\n", listener.Addr())
	log.Fatal(server.Serve(listener))
}
