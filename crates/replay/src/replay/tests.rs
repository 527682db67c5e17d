use tollgate_rules::{Options, Source};

use super::*;
use crate::traffic::Format;
