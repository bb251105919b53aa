//! Properties of the project as a whole: names agree, dispatch chooses as documented, wrong arguments do not compile.
#![allow(clippy::unwrap_used, missing_docs)]

mod architecture;
mod batch;
mod catalog;
mod compile_fail;
mod dispatch;
mod preferred;
mod staged;
