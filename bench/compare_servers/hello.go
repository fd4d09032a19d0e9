// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// GET /json by Go's net/http, with the headers that examples/http_server sends.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
)

type greeting struct {
	Message string `json:"message"`
}

func main() {
	http.HandleFunc("/json", func(writer http.ResponseWriter, request *http.Request) {
		body, err := json.Marshal(greeting{"Hello, World!"})
		if err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		writer.Header().Set("Server", "go")
		writer.Header().Set("Content-Type", "application/json")
		writer.Write(body)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
