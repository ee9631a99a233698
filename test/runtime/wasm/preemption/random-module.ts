/** Numbers that look random and are the same again for the same seed. */
export function dice(seed: number): (sides: number) => number {
  let state = (seed * 0x9e3779b9) >>> 0 || 1;
  return (sides) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % sides;
  };
}

const FUNCTIONS = 5;
const LOCALS = 3;
const MAX_DEPTH = 4;

/**
 * A module of some functions that call each other, directly, by table and in place of themselves, loop, branch, trap now
 * and then, and write into memory and globals. Fuel ends what would not end.
 */
export function randomModule(seed: number): string {
  const roll = dice(seed);
  const local = () => `$l${roll(LOCALS)}`;
  const fn = () => `$f${roll(FUNCTIONS)}`;

  function value(depth: number): string {
    const simple = [
      () => `(i32.const ${roll(1000) - 500})`,
      () => `(local.get ${local()})`,
      () => '(global.get $g)',
      () => '(memory.size)',
    ];
    if (depth <= 0) return (simple[roll(simple.length)] as () => string)();
    const deep = () => value(depth - 1);
    const forms = [
      ...simple,
      () => `(i32.add ${deep()} ${deep()})`,
      () => `(i32.xor ${deep()} ${deep()})`,
      () => `(i32.mul ${deep()} ${deep()})`,
      () => `(i32.div_s ${deep()} (i32.or ${deep()} (i32.const 1)))`,
      () => `(i32.load8_u (i32.and ${deep()} (i32.const 4095)))`,
      () => `(i32.wrap_i64 (i64.rotl (i64.extend_i32_s ${deep()}) (i64.const ${roll(64)})))`,
      () => `(i32.trunc_sat_f64_s (f64.mul (f64.convert_i32_s ${deep()}) (f64.const ${roll(9)}.5)))`,
      () => `(i32x4.extract_lane ${roll(4)} (i32x4.add (i32x4.splat ${deep()}) (v128.const i32x4 1 2 3 4)))`,
      () => `(select ${deep()} ${deep()} ${deep()})`,
      () => `(if (result i32) ${deep()} (then ${deep()}) (else ${deep()}))`,
      () => `(block $b (result i32) (drop (br_if $b ${deep()} ${deep()})) ${deep()})`,
      () => `(call ${fn()} ${deep()})`,
      () => `(call_indirect (type $t) ${deep()} (i32.and ${deep()} (i32.const ${roll(8) === 0 ? 7 : 3})))`,
      () => `(call $see ${deep()} ${deep()})`,
      () => `(block (result i32) (call $two ${deep()}) (drop))`,
    ];
    return (forms[roll(forms.length)] as () => string)();
  }

  function statement(depth: number): string {
    const inner = () => statement(depth - 1);
    const forms = [
      () => `(local.set ${local()} ${value(depth)})`,
      () => `(global.set $g ${value(depth)})`,
      () => `(i32.store8 (i32.and ${value(depth - 1)} (i32.const 4095)) ${value(depth - 1)})`,
      () => `(memory.fill (i32.and ${value(1)} (i32.const 2047)) ${value(1)} (i32.const ${roll(200)}))`,
      () => `(drop (memory.grow (i32.const ${roll(2)})))`,
    ];
    if (depth > 0) {
      forms.push(
        () => `(loop $again ${inner()} (br_if $again (call $burn ${value(depth - 1)})))`,
        () => `(loop $outer (loop $inner ${inner()} (br_if $inner (call $burn ${value(1)}))
                 (br_if $outer (call $burn ${value(1)}))))`,
        () => `(if ${value(depth - 1)} (then ${inner()}) (else ${inner()}))`,
        () =>
          `(block $x (block $y (block $z (br_table $x $y $z (i32.and ${value(1)} (i32.const 3)))) ${inner()}) ${inner()})`,
        () => `(if (i32.eqz (i32.and ${value(1)} (i32.const 63))) (then (return ${value(1)})))`,
        () => `(if (i32.eqz (i32.and ${value(1)} (i32.const 127))) (then (return_call ${fn()} ${value(1)})))`,
      );
    }
    return (forms[roll(forms.length)] as () => string)();
  }

  const functions = Array.from({ length: FUNCTIONS }, (_, index) => {
    const locals = Array.from({ length: LOCALS - 1 }, (__, at) => `(local $l${at + 1} i32)`).join(' ');
    const body = Array.from({ length: 1 + roll(4) }, () => statement(MAX_DEPTH - 1)).join('\n    ');
    return `(func $f${index} (type $t) (param $l0 i32) (result i32) ${locals}
    (if (i32.eqz (call $burn (i32.const 1))) (then (return (i32.const ${index}))))
    ${body}
    ${value(2)})`;
  });
  return `(module
  (type $t (func (param i32) (result i32)))
  (import "test" "see" (func $see (param i32 i32) (result i32)))
  (memory (export "memory") 1 4)
  (table 8 funcref)
  (elem (i32.const 0) $f0 $f1 $f2 $f3)
  (global $g (export "g") (mut i32) (i32.const ${roll(100)}))
  (global $fuel (export "fuel") (mut i32) (i32.const 400))
  (data (i32.const 16) "some bytes that are there from the beginning")
  ${roll(3) === 0 ? '(start $init)' : ''}
  (func $init (global.set $g (call $f0 (i32.const 3))) (global.set $fuel (i32.const 400)))
  (func $burn (param i32) (result i32)
    (global.set $fuel (i32.sub (global.get $fuel) (i32.const 1)))
    (i32.and (i32.gt_s (global.get $fuel) (i32.const 0)) (i32.ne (i32.and (local.get 0) (i32.const 7)) (i32.const 5))))
  (func $two (param i32) (result i32 i32) (local.get 0) (i32.const 2))
  ${functions.join('\n  ')}
  (func (export "run") (param i32) (result i32) (call $f0 (local.get 0))))`;
}
