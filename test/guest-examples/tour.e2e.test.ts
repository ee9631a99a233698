import { describe, it } from 'vitest';
import { expectTour } from './tour-expectations.ts';

const guests = [
  ['Rust', 'module', 'rust/tour.wasm'],
  ['Rust', 'component', 'rust/tour.component.wasm'],
  ['C', 'module', 'c/tour.wasm'],
  ['C', 'component', 'c/tour.component.wasm'],
  ['AssemblyScript', 'module', 'assemblyscript/tour.wasm'],
  ['AssemblyScript', 'component', 'assemblyscript/tour.component.wasm'],
  ['JavaScript', 'component', 'javascript/tour.component.wasm'],
] as const;

describe('the tour', () => {
  it.each(guests)('does the same in %s as a %s [guests.tour]', async (_language, _form, wasm) => {
    await expectTour(wasm);
  });
});
