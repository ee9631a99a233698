import type { ModuleProblem } from '../../runtime/abi/guest-module.ts';

/** What to do about a module that cannot run here. */
export const moduleRemedies: Readonly<Record<ModuleProblem, string>> = {
  unknown_imports:
    'build the guest for this version of the ABI, or pass --allow-unknown-imports to link them to ENOSYS',
  component_parts: 'create the component first: spear componentize FILE -o FILE.component.wasm',
};
