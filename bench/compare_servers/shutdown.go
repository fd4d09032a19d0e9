// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// GET and POST /json by Go's net/http, which drains on SIGTERM: for drain.py.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	http.HandleFunc("/json", func(writer http.ResponseWriter, request *http.Request) {
		io.Copy(io.Discard, request.Body)
		writer.Header().Set("Content-Type", "application/json")
		writer.Write([]byte(`{"message":"Hello, World!"}`))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	server := &http.Server{}
	go server.Serve(listener)
	fmt.Printf("listening on %s\n", listener.Addr())
	<-ended
	limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		log.Fatal(err)
	}
}
