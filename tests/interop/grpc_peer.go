// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The service of examples/grpc_server by Go's gRPC, for grpc_peers_test.py. Messages are read and written by their wire
// format, so that no generated code is needed. -age: connections end so soon.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

type rawCodec struct{}

func (rawCodec) Marshal(value interface{}) ([]byte, error) { return *value.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, value interface{}) error {
	*value.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (rawCodec) Name() string   { return "proto" }
func (rawCodec) String() string { return "proto" }

// The fields 1 (bytes) and 2 (an integer) of a message that has no others.
func fields(message []byte) (text []byte, number uint64) {
	for len(message) > 0 {
		tag := message[0]
		value, size := binary.Uvarint(message[1:])
		message = message[1+size:]
		if tag == 1<<3|2 {
			text, message = message[:value], message[value:]
		} else {
			number = value
		}
	}
	return text, number
}

func reply(text []byte) *[]byte {
	var message []byte
	if len(text) != 0 {
		head := make([]byte, 1+binary.MaxVarintLen64)
		head[0] = 1<<3 | 2
		message = append(head[:1+binary.PutUvarint(head[1:], uint64(len(text)))], text...)
	}
	return &message
}

func echo(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	var message []byte
	if err := decode(&message); err != nil {
		return nil, err
	}
	text, _ := fields(message)
	if string(text) == "fail" {
		return nil, status.Error(codes.NotFound, "100 % of\u00e9")
	}
	return reply(text), nil
}

func echoAll(_ interface{}, stream grpc.ServerStream) error {
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		text, _ := fields(message)
		if err := stream.SendMsg(reply(text)); err != nil {
			return err
		}
	}
}

func echoJoined(_ interface{}, stream grpc.ServerStream) error {
	var all []byte
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err == io.EOF {
			return stream.SendMsg(reply(all))
		} else if err != nil {
			return err
		}
		text, _ := fields(message)
		all = append(all, text...)
	}
}

func greet(_ interface{}, stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	name, times := fields(message)
	for i := uint64(1); i <= times; i++ {
		if err := stream.SendMsg(reply([]byte(fmt.Sprintf("hello %s, for the %d. time", name, i)))); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	age := flag.Duration("age", time.Hour, "of a connection")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.CustomCodec(rawCodec{}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: *age, MaxConnectionAgeGrace: time.Minute}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "weft.examples.Greeter",
		HandlerType: (*interface{})(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}},
		Streams: []grpc.StreamDesc{
			{StreamName: "EchoAll", Handler: echoAll, ServerStreams: true, ClientStreams: true},
			{StreamName: "EchoJoined", Handler: echoJoined, ClientStreams: true},
			{StreamName: "Greet", Handler: greet, ServerStreams: true},
		},
	}, nil)
	fmt.Printf("listening on %s\n", listener.Addr())
	log.Fatal(server.Serve(listener))
}
