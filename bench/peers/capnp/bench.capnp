@0xb3a9d7f1c52e6084;

interface Bench {
  call @0 (request :Data) -> (response :Data);
}
