import packageJson from '../../package.json' with { type: 'json' };

/** The version of this package: what commands print, and what servers and trails are told. */
export const version: string = packageJson.version;
