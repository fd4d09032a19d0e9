module weft/bench/compare

go 1.19
