;; A template of a plug-in: refuses requests in which the field `name` has a certain text, and says
;; how often. `include/petasos_plugin_wasm.md` documents the functions.
;;
;; Configuration: a text, such as "mallory", without escapes. State: a number.
(module
  (import "petasos" "input" (func $input (param i32 i32 i32 i32) (result i32)))
  (import "petasos" "say" (func $say (param i32 i32) (result i32)))
  (import "petasos" "declare_field" (func $declare_field (param i32 i32 i32 i32) (result i32)))
  (import "petasos" "field_bytes" (func $field_bytes (param i32 i32 i32 i32) (result i32)))

  (memory (export "memory") 1)
  (data (i32.const 0) "name")
  (data (i32.const 16) "it needs a text of 1 to 200 bytes")
  (data (i32.const 64) "refused by name")
  ;; 256: the configuration. 512: a value. 768: digits, which end at 800.

  (global $text_len (mut i32) (i32.const 0))
  (global $fields (mut i32) (i32.const 0))
  (global $refused (mut i64) (i64.const 0))

  (func (export "petasos_abi_version") (result i32) (i32.const 1))
  (func (export "petasos_state_version") (result i32) (i32.const 1))
  ;; Requests (bit 0) and messages of streams (bit 1).
  (func (export "petasos_interests") (result i32) (i32.const 3))

  (func (export "petasos_create") (result i32)
    (local $len i32) (local $at i32)
    (local.set $len (call $input (i32.const 0) (i32.const 0) (i32.const 256) (i32.const 202)))
    (if (i32.or (i32.or (i32.lt_s (local.get $len) (i32.const 3))
                        (i32.gt_s (local.get $len) (i32.const 202)))
                (i32.ne (i32.load8_u (i32.const 256)) (i32.const 34)))
      (then
        (drop (call $say (i32.const 16) (i32.const 33)))
        (return (i32.const 1))))
    (global.set $text_len (i32.sub (local.get $len) (i32.const 2)))
    ;; The state's digits.
    (local.set $len (call $input (i32.const 1) (i32.const 0) (i32.const 512) (i32.const 20)))
    (if (i32.gt_s (local.get $len) (i32.const 20)) (then (return (i32.const 2))))
    (block $done
      (loop $more
        (br_if $done (i32.ge_s (local.get $at) (local.get $len)))
        (global.set $refused
          (i64.add (i64.mul (global.get $refused) (i64.const 10))
                   (i64.extend_i32_u
                     (i32.sub (i32.load8_u offset=512 (local.get $at)) (i32.const 48)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $more)))
    (i32.const 0))

  ;; Methods without such a field pass. Fields have the numbers 0, 1, ...
  (func (export "petasos_method") (param $method i32) (result i32)
    (if (i32.ge_s (call $declare_field (i32.const 0) (i32.const 4) (i32.const 4) (i32.const 0))
                  (i32.const 0))
      (then (global.set $fields (i32.add (global.get $fields) (i32.const 1)))))
    (i32.const 0))

  ;; Fields of other methods have no values.
  (func (export "petasos_item") (result i32)
    (local $field i32)
    (block $done
      (loop $more
        (br_if $done (i32.ge_u (local.get $field) (global.get $fields)))
        (if (i32.eq (call $field_bytes (local.get $field) (i32.const 0) (i32.const 512)
                                       (i32.const 200))
                    (global.get $text_len))
          (then
            (if (call $is_equal)
              (then
                (global.set $refused (i64.add (global.get $refused) (i64.const 1)))
                (drop (call $say (i32.const 64) (i32.const 15)))
                (return (i32.const 7))))))
        (local.set $field (i32.add (local.get $field) (i32.const 1)))
        (br $more)))
    (i32.const 0))

  ;; Whether the value is the configured text, behind its first quote.
  (func $is_equal (result i32)
    (local $at i32)
    (block $done
      (loop $more
        (br_if $done (i32.ge_u (local.get $at) (global.get $text_len)))
        (if (i32.ne (i32.load8_u offset=257 (local.get $at))
                    (i32.load8_u offset=512 (local.get $at)))
          (then (return (i32.const 0))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $more)))
    (i32.const 1))

  (func (export "petasos_decompose")
    (local $at i32) (local $left i64)
    (local.set $at (i32.const 800))
    (local.set $left (global.get $refused))
    (loop $more
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at)
        (i32.add (i32.wrap_i64 (i64.rem_u (local.get $left) (i64.const 10))) (i32.const 48)))
      (local.set $left (i64.div_u (local.get $left) (i64.const 10)))
      (br_if $more (i64.ne (local.get $left) (i64.const 0))))
    (drop (call $say (local.get $at) (i32.sub (i32.const 800) (local.get $at))))))
