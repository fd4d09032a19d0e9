// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Headers: the fields of a header section or of trailers, in their order.
// Sample:
//     interop::Http2Headers headers{{"content-type", "text/plain"}, {"x-weft", "yes"}};
//     headers.Add("content-length", "5");
//     const std::string_view type = headers.Find("content-type");     // "" if there is none
//     for (const interop::Http2Field field : headers) Log(field.name, field.value);
//
// What may be sent is checked when it is sent, and refused with kBadField: a name is of lower-case letters, digits and
// the signs that HTTP allows, and begins with no colon; a value has no control characters and no blanks at its ends;
// HTTP/2 forbids connection, keep-alive, proxy-connection, transfer-encoding, upgrade, and te other than "trailers"
// (RFC 9113, 8.2). A section is at most 64 KiB, counted as by bytes(), with the fields that begin with a colon.
//
// Views of names and values last until the next change. Two allocations for up to eight fields of 256 bytes together.
// Who may call: as a std::vector.
#ifndef WEFT_INTEROP_HTTP2_HEADERS_H_
#define WEFT_INTEROP_HTTP2_HEADERS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace weft::interop {

// A field, as views into Http2Headers.
struct Http2Field {
  // In lower case.
  std::string_view name;
  // Without blanks at its ends.
  std::string_view value;
};

class Http2Headers {
 public:
  // No fields, nothing allocated.
  Http2Headers() = default;
  // These, in their order.
  Http2Headers(std::initializer_list<Http2Field> fields) {
    for (const Http2Field& field : fields) Add(field.name, field.value);
  }

  // Behind all others, of its name also. Copies both.
  void Add(std::string_view name, std::string_view value);
  // The first of that name; empty if there is none.
  std::string_view Find(std::string_view name) const noexcept;
  // Whether there is a field of that name.
  bool Has(std::string_view name) const noexcept;

  // How many fields there are; a name may be there several times.
  std::size_t size() const noexcept { return places_.size(); }
  // Whether there are none.
  bool empty() const noexcept { return places_.empty(); }
  Http2Field operator[](std::size_t i) const noexcept {
    const Place& place = places_[i];
    const std::string_view text(text_);
    return {text.substr(place.begin, place.name), text.substr(place.begin + place.name, place.value)};
  }
  // As HTTP/2 counts them: names, values and 32 a field.
  std::size_t bytes() const noexcept { return text_.size() + 32 * places_.size(); }
  // Removes all; keeps the memory.
  void clear() noexcept {
    text_.clear();
    places_.clear();
  }

  // Over the fields in their order, as Http2Field; good until the next change.
  class Iterator {
   public:
    // What begin() and end() make.
    Iterator(const Http2Headers* headers, std::size_t i) : headers_(headers), i_(i) {}
    Http2Field operator*() const noexcept { return (*headers_)[i_]; }
    Iterator& operator++() noexcept {
      ++i_;
      return *this;
    }
    bool operator==(const Iterator& other) const noexcept { return i_ == other.i_; }

   private:
    const Http2Headers* headers_;
    std::size_t i_;
  };
  // The first field, and the end of the fields.
  Iterator begin() const noexcept { return {this, 0}; }
  Iterator end() const noexcept { return {this, places_.size()}; }

 private:
  struct Place {
    std::uint32_t begin;
    std::uint32_t name;
    std::uint32_t value;
  };

  const Place* PlaceOf(std::string_view name) const noexcept;  // nullptr: no field has the name

  std::string text_;
  std::vector<Place> places_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HEADERS_H_
