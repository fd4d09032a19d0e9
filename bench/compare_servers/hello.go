// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// GET /json and GET /bytes?n=65536 by Go's net/http, with the headers that examples/http_server sends.
// With -certificate and -key over TLS: there it speaks HTTP/2, too.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
)

type greeting struct {
	Message string `json:"message"`
}

func main() {
	certificate := flag.String("certificate", "", "a PEM file")
	key := flag.String("key", "", "a PEM file")
	flag.Parse()
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
	http.HandleFunc("/bytes", func(writer http.ResponseWriter, request *http.Request) {
		n, err := strconv.Atoi(request.URL.Query().Get("n"))
		if err != nil || n < 0 || n > 1<<20 {
			http.Error(writer, "n: expected a number from 0 to 1048576", http.StatusBadRequest)
			return
		}
		writer.Header().Set("Server", "go")
		writer.Header().Set("Content-Type", "application/octet-stream")
		writer.Header().Set("Content-Length", strconv.Itoa(n))
		writer.Write(bytes.Repeat([]byte{'x'}, n))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	if *certificate != "" {
		log.Fatal(http.ServeTLS(listener, nil, *certificate, *key))
	}
	log.Fatal(http.Serve(listener, nil))
}
