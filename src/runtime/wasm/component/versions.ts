import packageJson from '../../../../package.json' with { type: 'json' };

/** Of @bytecodealliance/jco-transpile, which the build puts into dist/: what is known about its output was seen in this version. */
export const JCO_VERSION: string = packageJson.devDependencies['@bytecodealliance/jco-transpile'];

/** Another number whenever admission, the check of imports or the proof of the fast lane judges differently. */
export const GATE_VERSION = 3;

/** Of this program: another one may judge or treat the same component differently. */
export const OWN_VERSION: string = packageJson.version;
